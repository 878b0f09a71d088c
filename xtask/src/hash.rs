//! SHA-256 over bytes and files: one hash for sources, builds and records, so that `sha256sum`
//! checks each of them by hand.

use std::fmt;
use std::io::Read as _;
use std::path::Path;
use std::str::FromStr;

use fs_err as fs;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// A SHA-256 value; written as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The hash of a file's content.
    ///
    /// # Errors
    /// When the file cannot be read; the error names it.
    pub fn of_file(path: &Path) -> std::io::Result<Self> {
        let mut file = fs::File::open(path)?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 18];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(Self(hasher.finalize().into())),
                length => hasher.update(&buffer[..length]),
            }
        }
    }

    /// The first 12 digits: enough to tell builds apart in a file name.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let bad = || anyhow::anyhow!("`{text}` is not a sha256: 64 hex digits are needed");
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let mut bytes = [0; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(|_| bad())?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_and_round_trip() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), empty);
        assert_eq!(empty.parse::<Digest>().expect("a digest"), Digest::of(b""));
        assert_eq!(Digest::of_file(Path::new("/dev/null")).expect("readable"), Digest::of(b""));
        for bad in ["", "e3b0", &empty.replace('e', "g"), &format!("{empty}0"), &"é".repeat(32)] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}
