//! `source add`: what an origin has is pinned, and the matrix file keeps every other byte.

use crate::support::{Project, command, must};

const MATRIX: &str = "# mine\nschema = 1\n\n[source.old] # the old one\nengine = \"postgres\"\n\
    prefix = \"/usr/lib/postgresql/15\"\n\n# ---- axes\n[axis.toolchain]\ngcc = { tag = \"\" }\n";

#[test]
fn an_archive_is_pinned_by_its_hash() {
    let project = Project::with_matrix(MATRIX);
    let sha256 = project.pack("tiny-pg", "tiny-15.99.tar.gz");
    let add = ["source", "add", "new", "file:tiny-15.99.tar.gz", "--engine", "postgres"];
    let silent = project.call(&add);
    assert_eq!(silent.code, Some(2), "{}", silent.stderr);
    assert!(silent.stderr.contains("say `--version`"), "{}", silent.stderr);

    let add = [&add[..], &["--version", "15.99"]].concat();
    let wrong = project.call(&[&add[..], &["--sha256", &"0".repeat(64)]].concat());
    assert_eq!(wrong.code, Some(2), "{}", wrong.stderr);
    assert!(wrong.stderr.contains(&format!("has sha256 {sha256}, not 000")), "{}", wrong.stderr);
    assert_eq!(project.read("matrix.toml"), MATRIX, "nothing is written after a mistake");

    let called = project.ok(&[&add[..], &["--sha256", &sha256]].concat());
    assert!(called.stderr.contains(&sha256), "{}", called.stderr);
    let entry = format!(
        "[source.new]\nengine  = \"postgres\"\nversion = \"15.99\"\nsha256  = \"{sha256}\"\n\
         origins = [\"file:tiny-15.99.tar.gz\"]\n"
    );
    let wanted = MATRIX.replace("\n\n# ---- axes", &format!("\n\n{entry}\n# ---- axes"));
    assert_eq!(project.read("matrix.toml"), wanted);
    assert!(project.path("work/downloads").join(&sha256).is_file(), "a build fetches nothing");

    let twice = project.call(&add);
    assert_eq!(twice.code, Some(2), "{}", twice.stderr);
    assert!(twice.stderr.contains("`new` is there already"), "{}", twice.stderr);
}

#[test]
fn origins_that_differ_and_origins_that_are_none() {
    let project = Project::with_matrix(MATRIX);
    project.pack("tiny-pg", "one.tar.gz");
    project.pack("source", "two.tar.gz");
    let named = ["--engine", "postgres", "--version", "15.99"];
    let call = |origins: &[&str]| {
        let called = project.call(&[&["source", "add", "new"], origins, &named].concat());
        assert_eq!(project.read("matrix.toml"), MATRIX);
        (called.code, called.stderr)
    };
    let (code, told) = call(&["file:one.tar.gz", "file:two.tar.gz"]);
    assert!(code == Some(2) && told.contains("the origins have different archives"), "{told}");
    let (code, told) = call(&["one.tar.gz"]);
    assert!(code == Some(2) && told.contains("`one.tar.gz` is no origin"), "{told}");
    let (code, told) = call(&["file:none.tar.gz"]);
    assert!(code == Some(4) && told.contains("no such file"), "{told}");
    let (code, told) = call(&[]);
    assert!(code == Some(2) && told.contains("no origin named"), "{told}");
}

#[test]
fn a_tag_is_pinned_as_its_revision() {
    let project = Project::with_matrix(MATRIX);
    project.write("repo/configure", "PACKAGE_NAME='PostgreSQL'\nPACKAGE_VERSION='16.3'\n");
    let git = |args: &[&str]| {
        let mut git = command("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@example.invalid"]);
        git.arg("-C").arg(project.path("repo")).args(args);
        must(git).trim().to_owned()
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "one"]);
    git(&["tag", "-am", "a tag of its own", "v1"]);
    let rev = git(&["rev-parse", "HEAD"]);
    let add = ["source", "add", "fork", "--git", "repo", "--rev"];
    project.ok(&[&add[..], &["v1"]].concat());
    let text = project.read("matrix.toml");
    let entry = format!(
        "[source.fork]\nengine  = \"postgres\"\nversion = \"16.3\"\ngit     = \"repo\"\n\
         rev     = \"{rev}\"\n"
    );
    assert!(text.contains(&entry), "{text}");
    let none = project.call(&["source", "add", "other", "--git", "repo", "--rev", "v2"]);
    assert!(none.stderr.contains("no branch and no tag `v2`"), "{}", none.stderr);
}
