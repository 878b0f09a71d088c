//! Sources from end to end on small archives and repositories: made, reused, mended, refused.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;

use super::*;
use crate::exit::code_of;
use crate::matrix::model::{Engine, Options, Origin};
use crate::proc::Proc;
use crate::progress::Reporter;

struct World {
    dir: tempfile::TempDir,
    env: Env,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().to_owned();
        let env = Env {
            matrix: root.join("matrix.toml"),
            results: root.join("results"),
            work: root.join("work"),
            sources: None,
            jobs: 1,
            keep_going: true,
            reporter: Reporter::new(true),
            root,
        };
        Self { dir, env }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(&path, bytes).expect("written");
        path
    }

    /// Nothing half done is left behind.
    fn assert_clean(&self) {
        let left = std::fs::read_dir(self.env.staging()).map_or(0, Iterator::count);
        assert_eq!(left, 0, "staging is empty");
    }
}

fn archive() -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, text, mtime) in
        [("p/gram.y", "one\ntwo\nthree\n", 1_000_000), ("p/gram.c", "int x;\n", 1_000_100)]
    {
        let mut header = tar::Header::new_ustar();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(mtime);
        builder.append_data(&mut header, name, text.as_bytes()).expect("appended");
    }
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&builder.into_inner().expect("complete")).expect("compressed");
    gz.finish().expect("complete")
}

fn source(kind: SourceKind) -> Source {
    Source {
        name: "s1".into(),
        engine: Engine::Postgres,
        version: Some("15.18".parse().expect("a version")),
        kind,
        patches: Vec::new(),
        options: Options::default(),
        span: 0..0,
    }
}

fn from_file(sha256: Digest) -> Source {
    let origins = vec![Origin::File("p.tar.gz".into())];
    source(SourceKind::Archive { sha256, origins })
}

const PATCH: &str =
    "Makes two greater.\n\n--- a/gram.y\n+++ b/gram.y\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n";

#[test]
fn made_once_then_reused_and_mended_when_edited() {
    let world = World::new();
    world.write("p.tar.gz", archive());
    let source = from_file(Digest::of(&archive()));
    let tree = ensure(&world.env, &source).expect("made");
    assert_eq!(tree.source_date_epoch, 1_000_100);
    let file = tree.path.join("gram.y");
    let inode = || std::fs::metadata(&file).expect("a file").ino();
    let first = inode();
    // No archive is needed any more.
    std::fs::remove_file(world.path("p.tar.gz")).expect("removed");
    assert_eq!(ensure(&world.env, &source).expect("reused"), tree);
    assert_eq!(inode(), first);
    std::fs::write(&file, "edited\n").expect("written");
    assert_eq!(ensure(&world.env, &source).expect("mended"), tree);
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "one\ntwo\nthree\n");
    // A crash before the stamp is written: made again.
    let stamp = tree.path.with_extension("json");
    std::fs::remove_file(&stamp).expect("removed");
    std::fs::remove_file(&file).expect("removed");
    assert_eq!(ensure(&world.env, &source).expect("made again"), tree);
    assert!(stamp.exists() && file.exists());
    world.assert_clean();
}

#[test]
fn wrong_content_is_named_with_its_origin_and_not_kept() {
    let world = World::new();
    world.write("p.tar.gz", archive());
    let wrong = Digest::of(b"other");
    let mut source = from_file(wrong);
    let SourceKind::Archive { origins, .. } = &mut source.kind else { panic!("an archive") };
    origins.push(Origin::File("none.tar".into()));
    // Nobody listens there: the connection is refused at once.
    origins.push(Origin::Https("https://127.0.0.1:9/a.tar.gz".into()));
    let error = ensure(&world.env, &source).expect_err("no origin has it");
    assert_eq!(code_of(&error), Code::Environment);
    let text = format!("{error:#}");
    let got = Digest::of(&archive());
    for part in [
        "cannot provide source `s1`".to_owned(),
        format!("file:p.tar.gz: wrong content: its sha256 is {got}"),
        "file:none.tar: no such file".to_owned(),
        "https://127.0.0.1:9/a.tar.gz: ".to_owned(),
        "--sources DIR".to_owned(),
    ] {
        assert!(text.contains(&part), "{part} in {text}");
    }
    assert!(!world.env.downloads().join(wrong.to_string()).exists());
    world.assert_clean();
}

#[test]
fn the_mirror_comes_first_by_file_name_or_by_hash() {
    let mut world = World::new();
    let hash = Digest::of(&archive());
    for name in ["p-1.tar.gz".to_owned(), hash.to_string()] {
        world.write(&format!("mirror/{name}"), archive());
        world.env.sources = Some(world.path("mirror"));
        let origins = vec![Origin::Https("https://127.0.0.1:9/x/p-1.tar.gz?a=b/c".into())];
        let source = source(SourceKind::Archive { sha256: hash, origins });
        ensure(&world.env, &source).expect("from the mirror");
        std::fs::remove_dir_all(&world.env.work).expect("removed");
        std::fs::remove_dir_all(world.path("mirror")).expect("removed");
    }
}

#[test]
fn a_damaged_download_is_fetched_again() {
    let world = World::new();
    world.write("p.tar.gz", archive());
    let hash = Digest::of(&archive());
    world.write(&format!("work/downloads/{hash}"), "damaged");
    ensure(&world.env, &from_file(hash)).expect("fetched again");
    assert_eq!(Digest::of_file(&world.env.downloads().join(hash.to_string())).unwrap(), hash);
}

#[test]
fn patches_change_tree_and_digest_and_are_newer_than_what_they_generate() {
    let world = World::new();
    world.write("p.tar.gz", archive());
    let source = from_file(Digest::of(&archive()));
    let plain = facts(&world.env, &source).expect("facts");
    world.write("patches/postgres/s1/001-two.patch", PATCH);
    let patched = facts(&world.env, &source).expect("facts");
    assert_ne!(plain.digest, patched.digest);
    assert_eq!(
        patched.patches,
        [("postgres/s1/001-two.patch".into(), Digest::of(PATCH.as_bytes()))]
    );
    let tree = ensure(&world.env, &source).expect("patched");
    let file = tree.path.join("gram.y");
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "one\nTWO\nthree\n");
    let mtime = |name: &str| std::fs::metadata(tree.path.join(name)).expect(name).mtime();
    assert_eq!((mtime("gram.y"), mtime("gram.c"), mtime("")), (1_000_101, 1_000_100, 1_000_100));
    assert_eq!(std::fs::read_dir(&tree.path).expect("a folder").count(), 2, "no .orig, no .rej");
    world.assert_clean();
}

#[test]
fn a_patch_that_does_not_fit_exactly_is_an_error() {
    let world = World::new();
    world.write("p.tar.gz", archive());
    let source = from_file(Digest::of(&archive()));
    // Its first line of context differs: `patch` would apply it with fuzz.
    world.write("patches/postgres/s1/001-two.patch", PATCH.replace(" one", " uno"));
    let text = format!("{:#}", ensure(&world.env, &source).expect_err("it does not fit"));
    for part in ["`patches/postgres/s1/001-two.patch` does not apply", "gram.y", "Hunk #1 FAILED"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    world.write("patches/postgres/s1/001-two.patch", "Why.\nno patch at all\n");
    assert!(ensure(&world.env, &source).is_err());
    assert_eq!(
        std::fs::read_dir(world.env.trees())
            .map_or(0, |all| { all.flatten().filter(|entry| entry.path().is_dir()).count() }),
        0
    );
    world.assert_clean();
}

#[test]
fn badly_named_patches_are_errors() {
    let world = World::new();
    let mut source = from_file(Digest::of(b""));
    let reason = |source: &Source| facts(&world.env, source).expect_err("an error").reason;
    let path = world.write("patches/postgres/s1/fix.patch", PATCH);
    assert!(reason(&source).contains("`NNN-name.patch` is needed"), "{}", reason(&source));
    assert_eq!(code_of(&ensure(&world.env, &source).expect_err("an error")), Code::Input);
    std::fs::remove_file(path).expect("removed");
    world.write("patches/postgres/s1/002-b.patch", PATCH);
    let twin = world.write("patches/postgres/s1/002-a.patch", PATCH);
    assert!(reason(&source).contains("have the same number"), "{}", reason(&source));
    std::fs::remove_file(twin).expect("removed");
    world.write("patches/postgres/s1/001-z.patch", PATCH);
    source.patches = vec!["common/x.patch".into()];
    assert!(reason(&source).contains("common/x.patch"), "{}", reason(&source));
    world.write("patches/common/x.patch", PATCH);
    let order: Vec<String> =
        facts(&world.env, &source).expect("facts").patches.into_iter().map(|(p, _)| p).collect();
    assert_eq!(order, ["postgres/s1/001-z.patch", "postgres/s1/002-b.patch", "common/x.patch"]);
    source.patches = vec!["../x.patch".into()];
    assert!(reason(&source).contains("must be a plain path"), "{}", reason(&source));
}

fn git(dir: &Path, args: &[&str]) -> String {
    std::fs::create_dir_all(dir).expect("a folder");
    let set = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always"];
    Proc::new("git")
        .args(set)
        .args(args)
        .env("GIT_COMMITTER_DATE", "1700000000 +0000")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .cwd(dir)
        .read()
        .expect("git works")
}

#[test]
fn a_git_revision_with_its_submodule() {
    let world = World::new();
    let (sub, main) = (world.path("sub"), world.path("main"));
    git(&sub, &["init", "-q"]);
    world.write("sub/s.c", "sub\r\n");
    git(&sub, &["add", "."]);
    git(&sub, &["commit", "-qm", "s"]);
    git(&main, &["init", "-q"]);
    world.write("main/run.sh", "#!/bin/sh\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(main.join("run.sh"), mode).expect("a mode");
    git(&main, &["submodule", "--quiet", "add", "../sub", "deep/sub"]);
    git(&main, &["add", "."]);
    git(&main, &["commit", "-qm", "m"]);
    let rev = git(&main, &["rev-parse", "HEAD"]);
    // A later commit: the revision is no longer the tip of the branch.
    world.write("main/later", "x");
    git(&main, &["add", "."]);
    git(&main, &["commit", "-qm", "l"]);
    let wanted = source(SourceKind::Git { url: "main".into(), rev });
    let tree = ensure(&world.env, &wanted).expect("exported");
    assert_eq!(tree.source_date_epoch, 1_700_000_000);
    let meta = std::fs::metadata(tree.path.join("run.sh")).expect("a file");
    assert_eq!((meta.mode() & 0o7777, meta.mtime()), (0o755, 1_700_000_000));
    assert_eq!(std::fs::read(tree.path.join("deep/sub/s.c")).expect("a file"), b"sub\r\n");
    assert!(!tree.path.join("later").exists() && !tree.path.join(".git").exists());
    // Without the origin the tree is made again from what was fetched.
    std::fs::remove_dir_all(&main).expect("removed");
    std::fs::write(tree.path.join("run.sh"), "edited").expect("written");
    assert_eq!(ensure(&world.env, &wanted).expect("mended"), tree);
    let kind = SourceKind::Git { url: "none".into(), rev: "0".repeat(40) };
    let text = format!("{:#}", ensure(&world.env, &source(kind)).expect_err("no repository"));
    assert!(text.contains("cannot get revision 0000") && text.contains("none"), "{text}");
    world.assert_clean();
}

#[test]
fn an_installed_server_tells_version_and_content() {
    let world = World::new();
    let make = |version: &str| {
        let text = format!("#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n");
        let script = world.write("script", text);
        // By another process: a test that forks meanwhile would hold the file open for writing.
        let to = world.path("pg/bin/postgres");
        Proc::new("install")
            .args(["-D", "-m", "755"])
            .arg(script)
            .arg(to)
            .run()
            .expect("installed");
    };
    let wanted = source(SourceKind::Prefix { path: world.path("pg") });
    let missing = facts(&world.env, &wanted).expect_err("not there").reason;
    assert!(missing.contains("no postgres server in"), "{missing}");
    make("15.18 (Debian)");
    let first = facts(&world.env, &wanted).expect("facts");
    assert_eq!((first.version.as_str(), first.patches.len()), ("15.18", 0));
    assert_eq!(std::fs::read_dir(world.env.cache()).expect("a cache").count(), 1);
    assert_eq!(facts(&world.env, &wanted).expect("cached"), first);
    make("15.19");
    let second = facts(&world.env, &wanted).expect("facts");
    assert_eq!(second.version, "15.19");
    assert_ne!(second.digest, first.digest);
    // A module that comes, and one that changes: the server's own program is the same.
    world.write("pg/lib/plpgsql.so", "one");
    let third = facts(&world.env, &wanted).expect("facts");
    assert_ne!(third.digest, second.digest);
    world.write("pg/lib/plpgsql.so", "two!");
    assert_ne!(facts(&world.env, &wanted).expect("facts").digest, third.digest);
    assert!(ensure(&world.env, &wanted).is_err());
}
