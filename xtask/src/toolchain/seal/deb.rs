//! The content of a Debian package as a stream of tar. Format: deb(5), an ar(5) archive with the
//! members `debian-binary`, `control.tar.*` and `data.tar.*`.

use std::io::{Read, Seek as _, SeekFrom};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use fs_err as fs;

use crate::proc::{Proc, Running};
use crate::source::archive::decoder;
use crate::source::fetch::needs;

const MAGIC: &[u8] = b"!<arch>\n";
/// Length of a member's header: name 16, time 12, owner 6, group 6, mode 8, size 10, end mark 2.
const HEADER: usize = 60;

/// The content of a package, to be read to its end.
pub(super) struct Data {
    stream: Box<dyn Read + Send>,
    running: Option<Running>,
}

impl Data {
    /// Opens a package.
    ///
    /// # Errors
    /// When it is not one, or is compressed in a way that only a missing program knows.
    pub(super) fn open(file: &Path) -> anyhow::Result<Self> {
        let mut input = fs::File::open(file)?;
        let (name, size) = find(&mut input)?;
        if !name.ends_with(".zst") {
            let input = input.into_parts().0;
            return Ok(Self { stream: decoder(input.take(size))?, running: None });
        }
        // Ubuntu's way of compressing; where such packages are used, this program is.
        let call = Proc::new("dpkg-deb").arg("--fsys-tarfile").arg(file);
        let mut running = call.spawn().map_err(|error| needs(error, "dpkg"))?;
        let stdout = running.stdout().context("no output of dpkg-deb")?;
        Ok(Self { stream: Box::new(stdout), running: Some(running) })
    }

    /// Reads what is left: only at the end does a decompressor compare its checksum.
    ///
    /// # Errors
    /// When the content was cut short or damaged.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        std::io::copy(&mut self.stream, &mut std::io::sink())?;
        if let Some(running) = &mut self.running {
            let status = running.wait(None)?;
            ensure!(status.success(), "dpkg-deb failed ({status})");
        }
        Ok(())
    }
}

impl Read for Data {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.stream.read(buffer)
    }
}

/// Leaves `input` at the content of the member `data.tar*`; its name and size.
fn find(input: &mut fs::File) -> anyhow::Result<(String, u64)> {
    let mut magic = [0; MAGIC.len()];
    let read = input.read_exact(&mut magic);
    ensure!(read.is_ok() && magic == MAGIC, "it is no package: the mark of an ar archive lacks");
    loop {
        let mut header = [0; HEADER];
        if input.read_exact(&mut header).is_err() {
            bail!("it is no package, or cut short: no member `data.tar`");
        }
        let text = String::from_utf8_lossy(&header).into_owned();
        let field = |from: usize, to: usize| text.get(from..to).map(str::trim);
        let (Some(name), Some(size), Some("`")) = (field(0, 16), field(48, 58), field(58, 60))
        else {
            bail!("it is damaged: the header of a member is not one");
        };
        let size: u64 = size.parse().context("it is damaged: the size of a member is no number")?;
        let name = name.trim_end_matches('/');
        if name.starts_with("data.tar") {
            return Ok((name.to_owned(), size));
        }
        // Members begin at even places.
        let skip = i64::try_from(size + size % 2).context("it is damaged: a member's size")?;
        input.seek(SeekFrom::Current(skip))?;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A package with this tar as its content, as `dpkg-deb` would make it, not compressed.
    pub(crate) fn package(tar: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for (name, content) in
            [("debian-binary", &b"2.0\n"[..]), ("control.tar", b"odd"), ("data.tar", tar)]
        {
            let size = content.len();
            let header = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{size:<10}`\n", 0, 0, 0, 100_644);
            bytes.extend(header.as_bytes());
            bytes.extend(content);
            bytes.extend(if size % 2 == 1 { "\n" } else { "" }.as_bytes());
        }
        bytes
    }

    fn read(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        let mut data = Data::open(file.path())?;
        let mut text = Vec::new();
        data.read_to_end(&mut text)?;
        data.finish()?;
        Ok(text)
    }

    #[test]
    fn members_are_found_and_decompressed() {
        assert_eq!(read(&package(b"plain tar")).unwrap(), b"plain tar");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, b"packed").unwrap();
        assert_eq!(read(&package(&gzip.finish().unwrap())).unwrap(), b"packed");
    }

    #[test]
    fn what_is_no_package_is_refused() {
        let good = package(b"plain tar");
        for (bytes, why) in [
            (&b""[..], "mark of an ar archive"),
            (b"PK\x03\x04 something", "mark of an ar archive"),
            (MAGIC, "no member `data.tar`"),
            (&good[..100], "no member `data.tar`"),
            (&[MAGIC, &[b'x'; HEADER]].concat(), "not one"),
        ] {
            let error = read(bytes).unwrap_err().to_string();
            assert!(error.contains(why), "{why}: {error}");
        }
    }
}
