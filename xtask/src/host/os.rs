//! The distribution, by `os-release(5)`.

use std::path::Path;

/// The text of `os-release`; empty where there is none.
pub fn release() -> String {
    release_in(Path::new("/etc"))
}

/// The text of `os-release` of the system whose `/etc` is `etc`.
pub fn release_in(etc: &Path) -> String {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let own = read(&etc.join("os-release"));
    own.or_else(|| read(&etc.join("../usr/lib/os-release"))).unwrap_or_default()
}

/// One variable of such a text, without its quotes.
pub fn field(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
    Some(line.trim().trim_matches(['"', '\'']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_without_quotes() {
        let release = "PRETTY_NAME=\"Debian 12\"\nID=debian\nVERSION_ID='12'\n";
        assert_eq!(field(release, "ID"), Some("debian".to_owned()));
        assert_eq!(field(release, "VERSION_ID"), Some("12".to_owned()));
        assert_eq!(field(release, "PRETTY_NAME"), Some("Debian 12".to_owned()));
        assert_eq!(field(release, "VERSION"), None);
    }

    #[test]
    fn the_vendor_s_file_stands_in() {
        let root = tempfile::tempdir().unwrap();
        let etc = root.path().join("etc");
        std::fs::create_dir_all(root.path().join("usr/lib")).unwrap();
        std::fs::create_dir(&etc).unwrap();
        assert_eq!(release_in(&etc), "");
        std::fs::write(root.path().join("usr/lib/os-release"), "ID=a\n").unwrap();
        assert_eq!(release_in(&etc), "ID=a\n");
        std::fs::write(etc.join("os-release"), "ID=b\n").unwrap();
        assert_eq!(release_in(&etc), "ID=b\n");
    }
}
