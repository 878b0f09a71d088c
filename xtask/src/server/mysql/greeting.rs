//! Just enough of MySQL's protocol to ask a server whether it accepts connections: the packet that
//! it greets every client with. A server that listens but is not ready keeps them waiting for it.
//!
//! Source: MySQL source documentation, "Client/Server Protocol", `Protocol::HandshakeV10` and
//! `ERR_Packet`.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};

const PATIENCE: Duration = Duration::from_secs(5);
/// No greeting is longer; more means that this is no server of the family.
const LONGEST: usize = 1 << 12;
/// MariaDB before 11 puts this before its version, as old replicas take only one digit before the
/// first dot.
const DISGUISE: &str = "5.5.5-";

/// Connects, hears the greeting and hangs up. Gives the version that the server reports of itself.
///
/// # Errors
/// When nobody listens or greets, or with the server's own words when it refuses.
pub fn hear(socket: &Path) -> anyhow::Result<String> {
    let mut stream = UnixStream::connect(socket)
        .with_context(|| format!("cannot connect to `{}`", socket.display()))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    read(&mut stream)
}

fn read(stream: &mut impl Read) -> anyhow::Result<String> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).context("the server does not greet")?;
    let length = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
    if !(2..=LONGEST).contains(&length) {
        bail!("the answer is not MySQL's protocol (a packet of {length} bytes)");
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).context("the server hangs up")?;
    match body[0] {
        10 => {
            let end = body.iter().position(|byte| *byte == 0).unwrap_or(body.len());
            let version = String::from_utf8_lossy(&body[1..end]);
            let plain = version.strip_prefix(DISGUISE).filter(|rest| rest.contains("MariaDB"));
            Ok(plain.unwrap_or(&version).to_owned())
        }
        // The number of the error, then text without an SQLSTATE: the client has said nothing yet.
        0xff => bail!(
            "the server says: {} (error {})",
            String::from_utf8_lossy(body.get(3..).unwrap_or_default()),
            u16::from_le_bytes([body[1], body.get(2).copied().unwrap_or_default()]),
        ),
        other => bail!("the server greets by version {other} of the protocol"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).expect("short").to_le_bytes();
        [&length[..3], &[0], body].concat()
    }

    fn heard(bytes: &[u8]) -> Result<String, String> {
        read(&mut &bytes[..]).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn the_version_is_heard() {
        let greeting = packet(b"\x0a8.0.39\0\x08\0\0\0salt");
        assert_eq!(heard(&greeting), Ok("8.0.39".to_owned()));
        let greeting = packet(b"\x0a5.5.5-10.11.19-MariaDB-0+deb12u1\0\x08\0\0\0");
        assert_eq!(heard(&greeting), Ok("10.11.19-MariaDB-0+deb12u1".to_owned()));
        let greeting = packet(b"\x0a5.5.5-m3\0");
        assert_eq!(heard(&greeting), Ok("5.5.5-m3".to_owned()), "a MySQL of that number");
    }

    #[test]
    fn refusals_say_why() {
        let refusal = packet(b"\xff\x10\x04Too many connections");
        assert_eq!(
            heard(&refusal),
            Err("the server says: Too many connections (error 1040)".to_owned())
        );
        let text = |bytes: &[u8]| heard(bytes).expect_err("refused");
        assert!(text(b"").contains("does not greet"));
        assert!(text(&packet(b"\x0a8.0")[..5]).contains("hangs up"));
        assert!(text(b"HTTP/1.1 400 Bad Request").contains("not MySQL's protocol"));
        assert!(text(&packet(b"\x093.2\0")).contains("version 9"));
        assert!(text(&packet(b"\xff\x01")).contains("error 1)"));
    }
}
