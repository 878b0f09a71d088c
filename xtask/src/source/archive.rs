//! Unpacks tar archives (plain, gzip, bzip2, xz) that nobody has to trust: what could touch
//! anything outside of the new folder is refused by name, and nothing is written through a link.

use std::ffi::OsString;
use std::io::{BufRead as _, Read, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::{Context as _, bail};
use fs_err as fs;
use tar::EntryType;

use super::tree::{self, Entry, Listing};
use crate::interrupt;

/// What an archive may contain at most; far above any database's source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Entries.
    pub(super) entries: usize,
    /// Bytes, unpacked.
    pub(super) bytes: u64,
}

/// The newest time stamp that an entry may have, seconds since 1970: the end of the year 9999, up
/// to which compilers take `SOURCE_DATE_EPOCH`.
const NEWEST: u64 = 253_402_300_799;

impl Default for Limits {
    fn default() -> Self {
        Self { entries: 1_000_000, bytes: 32 << 30 }
    }
}

/// Unpacks `file` into the new folder `into`, without the archive's single top folder. Owners are
/// ignored, modes become plain, time stamps of files are kept. Returns the newest time stamp.
///
/// # Errors
/// When the archive is broken or cut short, exceeds the limits, has several top folders, or has an
/// entry that is refused: absolute, with `..`, through a link, a link that leads out, a device.
pub(super) fn unpack(file: &Path, into: &Path, limits: &Limits) -> anyhow::Result<u64> {
    let decoder = decoder(fs::File::open(file)?)?;
    fs::create_dir(into)?;
    std::thread::scope(|scope| {
        // Decompressing takes about as long as writing: two threads halve the time.
        let (sender, receiver) = sync_channel(32);
        scope.spawn(move || pump(decoder, &sender));
        let mut stream = Stream { receiver, chunk: Vec::new(), at: 0, zeros: 0 };
        let mut unpacker = Unpacker {
            root: into,
            limits,
            bytes: 0,
            count: 0,
            top: None,
            listing: Listing::new(),
            newest: 0,
        };
        unpacker.all(&mut stream)?;
        unpacker.finish()
    })
}

/// The decompressor that the first bytes of the input ask for.
///
/// # Errors
/// When the input cannot be read.
pub(crate) fn decoder(input: impl Read + Send + 'static) -> std::io::Result<Box<dyn Read + Send>> {
    let mut input = std::io::BufReader::with_capacity(1 << 16, input);
    Ok(match input.fill_buf()? {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(input)),
        [b'B', b'Z', b'h', ..] => Box::new(bzip2::read::MultiBzDecoder::new(input)),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Box::new(lzma_rust2::XzReader::new(input, true)),
        // The last one known; the first header tells whether it is one.
        _ => Box::new(input),
    })
}

/// Sends the decompressed bytes until the end, an error, or until nobody listens any more.
fn pump(mut decoder: Box<dyn Read + Send>, sender: &SyncSender<std::io::Result<Vec<u8>>>) {
    loop {
        let mut chunk = Vec::with_capacity(1 << 17);
        let read = decoder.by_ref().take(1 << 17).read_to_end(&mut chunk);
        let (end, message) = match read {
            Ok(length) => (length == 0, Ok(chunk)),
            Err(error) => (true, Err(error)),
        };
        if sender.send(message).is_err() || end {
            return;
        }
    }
}

/// The decompressed bytes as a reader, which knows how many zeros came last.
struct Stream {
    receiver: Receiver<std::io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    at: usize,
    zeros: usize,
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.chunk.len() {
            // A closed channel is the end: the pump has said all it had to say.
            self.chunk = self.receiver.recv().unwrap_or_else(|_| Ok(Vec::new()))?;
            self.at = 0;
        }
        let length = buffer.len().min(self.chunk.len() - self.at);
        let part = &self.chunk[self.at..self.at + length];
        buffer[..length].copy_from_slice(part);
        self.at += length;
        let zeros = part.iter().rev().take_while(|byte| **byte == 0).count();
        self.zeros = if zeros == length { self.zeros.saturating_add(zeros) } else { zeros };
        Ok(length)
    }
}

struct Unpacker<'a> {
    root: &'a Path,
    limits: &'a Limits,
    bytes: u64,
    count: usize,
    top: Option<OsString>,
    listing: Listing,
    newest: u64,
}

impl Unpacker<'_> {
    fn all(&mut self, stream: &mut Stream) -> anyhow::Result<()> {
        let mut archive = tar::Archive::new(&mut *stream);
        for entry in archive.entries()? {
            interrupt::check()?;
            let mut entry = entry.context("the archive is broken or cut short")?;
            let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            self.count += 1;
            if self.count > self.limits.entries {
                bail!("the archive has more than {} entries", self.limits.entries);
            }
            self.entry(&mut entry).with_context(|| format!("the entry `{name}` is refused"))?;
        }
        // Only at the very end does a decompressor compare its checksum.
        std::io::copy(stream, &mut std::io::sink())
            .context("the archive is broken or cut short")?;
        if stream.zeros < 512 {
            bail!("the archive is cut short: its end mark is missing");
        }
        if self.listing.is_empty() {
            bail!("the archive is empty");
        }
        Ok(())
    }

    fn entry(&mut self, entry: &mut tar::Entry<'_, &mut Stream>) -> anyhow::Result<()> {
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            return Ok(());
        }
        let path = self.below_top(&entry.path_bytes())?;
        // Old archives mark folders only by the slash.
        let is_dir = kind.is_dir() || kind.is_file() && entry.path_bytes().ends_with(b"/");
        let Some(path) = path else {
            if is_dir {
                return Ok(());
            }
            bail!("it stands beside the top folder");
        };
        self.parents(&path)?;
        let mtime = entry.header().mtime()?;
        if mtime > NEWEST {
            bail!("its time stamp {mtime} is out of range: it lies after the year 9999");
        }
        self.newest = self.newest.max(mtime);
        match self.listing.get(&path) {
            Some(Entry::Dir) if is_dir => return Ok(()),
            Some(_) => bail!("its name is there already"),
            None => {}
        }
        let found = match kind {
            _ if is_dir => {
                fs::create_dir(self.root.join(&path))?;
                Entry::Dir
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let executable = entry.header().mode()? & 0o100 != 0;
                self.file(&path, entry, executable, mtime)?
            }
            EntryType::Link => {
                let target = entry.link_name_bytes().context("it has no target")?.into_owned();
                self.hard_link(&path, &target, mtime)?
            }
            EntryType::Symlink => {
                let target = entry.link_name()?.context("it has no target")?.into_owned();
                fs::os::unix::fs::symlink(&target, self.root.join(&path))?;
                Entry::Link(target)
            }
            EntryType::Char | EntryType::Block => bail!("it is a device"),
            EntryType::Fifo => bail!("it is a named pipe"),
            other => bail!("its type `{}` is unknown", other.as_byte().escape_ascii()),
        };
        self.listing.insert(path, found);
        Ok(())
    }

    /// The path without the top folder; `None` for the top folder itself.
    fn below_top(&mut self, name: &[u8]) -> anyhow::Result<Option<PathBuf>> {
        let name = Path::new(std::ffi::OsStr::from_bytes(name));
        let mut parts = Vec::new();
        for part in name.components() {
            match part {
                Component::Normal(part) => parts.push(part),
                Component::CurDir => {}
                Component::ParentDir => bail!("its path has `..`"),
                Component::RootDir | Component::Prefix(_) => bail!("its path is absolute"),
            }
        }
        let Some((top, rest)) = parts.split_first() else { return Ok(None) };
        match &self.top {
            None => self.top = Some((*top).to_owned()),
            Some(known) if known == top => {}
            Some(known) => bail!("the archive has a second top folder besides {known:?}"),
        }
        Ok(if rest.is_empty() { None } else { Some(rest.iter().collect()) })
    }

    /// Makes the folders above a path; one that is a link or a file is refused.
    fn parents(&mut self, path: &Path) -> anyhow::Result<()> {
        let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
        above.pop();
        for dir in above.into_iter().rev() {
            match self.listing.get(dir) {
                Some(Entry::Dir) => {}
                Some(Entry::Link(_)) => bail!("it leads through the link `{}`", dir.display()),
                Some(Entry::File { .. }) => bail!("`{}` is a file", dir.display()),
                None => {
                    fs::create_dir(self.root.join(dir))?;
                    self.listing.insert(dir.to_owned(), Entry::Dir);
                }
            }
        }
        Ok(())
    }

    fn file(
        &mut self,
        path: &Path,
        content: &mut impl Read,
        executable: bool,
        mtime: u64,
    ) -> anyhow::Result<Entry> {
        let mut file = fs::File::create_new(self.root.join(path))?;
        let left = self.limits.bytes - self.bytes;
        let length = std::io::copy(&mut content.take(left + 1), &mut file)
            .context("the archive is broken or cut short")?;
        if length > left {
            bail!("the archive has more than {} bytes", self.limits.bytes);
        }
        self.bytes += length;
        file.flush()?;
        let mode = if executable { 0o755 } else { 0o644 };
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
        let time = tree::time(mtime)?;
        let times = std::fs::FileTimes::new().set_modified(time).set_accessed(time);
        file.file().set_times(times).context("cannot set its time stamp")?;
        Ok(Entry::File { executable, mtime: (i64::try_from(mtime)?, 0) })
    }

    /// A hard link becomes a copy: a patch to one of two names must not change the other.
    fn hard_link(&mut self, path: &Path, target: &[u8], mtime: u64) -> anyhow::Result<Entry> {
        let shown = String::from_utf8_lossy(target).into_owned();
        let target = self
            .below_top(target)
            .with_context(|| format!("it is a link to `{shown}`"))?
            .filter(|target| matches!(self.listing.get(target), Some(Entry::File { .. })));
        let Some((target, Entry::File { executable, .. })) =
            target.and_then(|target| self.listing.get_key_value(&target))
        else {
            bail!("it is a link to `{shown}`, which is no file that came before");
        };
        let executable = *executable;
        let mut content = fs::File::open(self.root.join(target))?;
        self.file(path, &mut content, executable, mtime)
    }

    /// Checks the links, of which some may have come before what they lead to, and sets the time
    /// stamps of folders.
    fn finish(self) -> anyhow::Result<u64> {
        tree::check_links(&self.listing)?;
        for (path, entry) in self.listing.iter().rev() {
            if *entry == Entry::Dir {
                tree::set_mtime(&self.root.join(path), self.newest)?;
            }
        }
        tree::set_mtime(self.root, self.newest)?;
        Ok(self.newest)
    }
}

#[cfg(test)]
mod tests;
