//! What git prints, read; URLs of submodules.

use super::*;

#[test]
fn submodules_are_found_with_their_urls() {
    let rev = "0123456789012345678901234567890123456789";
    let text = format!("100644 blob {rev}\ta\0160000 commit {rev}\tsub dir/m\0");
    assert_eq!(parse_gitlinks(&text), [("sub dir/m".to_owned(), rev.to_owned())]);
    let list =
        "submodule.x.url\n../n.git\0submodule.m.path\nsub dir/m\0submodule.m.url\n../m.git\0";
    assert_eq!(parse_modules(list, "sub dir/m").as_deref(), Some("../m.git"));
    assert_eq!(parse_modules(list, "other"), None);
}

#[test]
fn relative_urls_count_from_the_parent() {
    for (parent, url, expected) in [
        ("https://h/a/b.git", "../c.git", "https://h/a/c.git"),
        ("https://h/a/b.git/", "../../x/c", "https://h/x/c"),
        ("git@h:a/b.git", "../c.git", "git@h:a/c.git"),
        ("/srv/b", "./c", "/srv/b/c"),
        ("/srv/b", "https://h/c", "https://h/c"),
    ] {
        assert_eq!(relative_url(parent, url), expected);
    }
}

#[test]
fn paths_and_urls() {
    assert!(is_local("../fork") && is_local("/srv/fork.git") && is_local("./a:b"));
    assert!(!is_local("https://h/fork.git") && !is_local("git@h:fork.git"));
}
