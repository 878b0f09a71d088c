//! The disk: which files are below a path, and their texts. Everything else here is pure.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::import::{Imported, Options, gather};

/// The longest text that is read; EXPLAIN output makes logs of some megabytes.
const LONGEST: u64 = 256 << 20;

/// Imports a file, or every file below a folder.
///
/// # Errors
///
/// When `path` cannot be listed. A file that cannot be read is skipped and said.
pub fn path(path: &Path, options: &Options) -> anyhow::Result<Imported> {
    let meta = fs_err::metadata(path).context("nothing to import")?;
    let files = if meta.is_dir() { files(path)? } else { vec![path.to_owned()] };
    let root = if meta.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
    Ok(gather::files(root, &files, options, &mut |file| text(file)))
}

/// All files below a folder, in the order of their names. Links to folders are not followed: there
/// may be circles.
fn files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(&folder)? {
            let entry = entry?;
            let hidden = entry.file_name().to_str().is_some_and(|name| name.starts_with('.'));
            if entry.file_type()?.is_dir() {
                if !hidden {
                    folders.push(entry.path());
                }
            } else if !hidden && entry.path().is_file() {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The text of a file, unpacked if need be; what is no UTF-8 becomes U+FFFD. The error is the
/// reason to skip it.
fn text(file: &Path) -> Result<String, String> {
    let bytes = bytes(file).map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.len() as u64 > LONGEST {
        return Err(format!("longer than {} MiB", LONGEST >> 20));
    }
    if bytes.iter().take(4096).any(|it| *it == 0) {
        return Err("no text".to_owned());
    }
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

fn bytes(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut packed = Vec::new();
    fs_err::File::open(file)?.take(LONGEST + 1).read_to_end(&mut packed)?;
    if !packed.starts_with(&[0x1f, 0x8b]) {
        return Ok(packed);
    }
    let mut bytes = Vec::new();
    let read =
        flate2::read::MultiGzDecoder::new(&packed[..]).take(LONGEST + 1).read_to_end(&mut bytes);
    // The beginning of a cut file is as good as that of a cut text.
    if bytes.is_empty() { read.map(|_| bytes) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn packed_cut_and_binary_files() {
        let folder = tempfile::tempdir().unwrap();
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all("samples\n".repeat(9000).as_bytes()).unwrap();
        let whole = gz.finish().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        assert_eq!(text(&write("a.gz", &whole)).unwrap().len(), 72_000);
        let cut = text(&write("b.gz", &whole[..whole.len() - 9])).unwrap();
        assert!(cut.starts_with("samples\n"), "{}", cut.len());
        assert!(text(&write("c.gz", &whole[..5])).unwrap_err().starts_with("cannot be read"));
        assert_eq!(text(&write("d", b"ELF\0")).unwrap_err(), "no text");
        assert_eq!(text(&write("e", b"caf\xe9")).unwrap(), "caf\u{fffd}");
        assert!(path(&folder.path().join("none"), &Options::default()).is_err());
        std::fs::create_dir(folder.path().join(".git")).unwrap();
        write(".git/x", b"");
        let names = files(folder.path()).unwrap();
        let names: Vec<_> = names.iter().map(|it| it.file_name().unwrap().to_owned()).collect();
        assert_eq!(names, ["a.gz", "b.gz", "c.gz", "d", "e"]);
    }
}
