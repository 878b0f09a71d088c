//! How a client proves that it knows a password.
//!
//! Source: MySQL source documentation, "Authentication Methods": "Native Authentication" and
//! "Caching SHA-2 Authentication".

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// What a client can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `mysql_native_password`: the default up to MySQL 5.7, and of MariaDB.
    Native,
    /// `caching_sha2_password`: the default from MySQL 8.0.
    CachingSha2,
}

impl Method {
    /// The method of that name.
    pub fn find(name: &str) -> Option<Self> {
        [Self::Native, Self::CachingSha2].into_iter().find(|method| method.name() == name)
    }

    /// Its name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "mysql_native_password",
            Self::CachingSha2 => "caching_sha2_password",
        }
    }

    /// The answer to the server's random bytes; nothing when there is no password.
    pub fn answer(self, password: &[u8], nonce: &[u8]) -> Vec<u8> {
        if password.is_empty() {
            return Vec::new();
        }
        match self {
            Self::Native => {
                let once = Sha1::digest(password);
                let key = Sha1::new().chain_update(nonce).chain_update(Sha1::digest(once));
                xor(&once, &key.finalize())
            }
            Self::CachingSha2 => {
                let once = Sha256::digest(password);
                let key = Sha256::new().chain_update(Sha256::digest(once)).chain_update(nonce);
                xor(&once, &key.finalize())
            }
        }
    }
}

fn xor(a: &[u8], b: &[u8]) -> Vec<u8> {
    a.iter().zip(b).map(|(a, b)| a ^ b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: [u8; 20] =
        [10, 47, 74, 111, 75, 73, 34, 48, 88, 76, 114, 74, 37, 13, 3, 80, 82, 2, 23, 21];

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The second is known from other clients, the first was computed by another program.
    #[test]
    fn answers_are_those_of_other_clients() {
        assert_eq!(
            hex(&Method::Native.answer(b"secret", &NONCE)),
            "6a149bdd80bda1ebf0fa2bd2cf2e9717fecc34bb"
        );
        assert_eq!(
            hex(&Method::CachingSha2.answer(b"secret", &NONCE)),
            "f490e76f66d9d86665ce54d98c78d0acfe2fb0b08b423da807144873d30b312c"
        );
    }

    #[test]
    fn no_password_no_answer() {
        for method in [Method::Native, Method::CachingSha2] {
            assert!(method.answer(b"", &NONCE).is_empty());
            assert_eq!(Method::find(method.name()), Some(method));
        }
        assert_eq!(Method::find("client_ed25519"), None);
    }
}
