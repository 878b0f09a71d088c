//! Just enough of PostgreSQL's protocol 3.0 to ask a server whether it accepts connections: the
//! start-up message, then messages until `ReadyForQuery` (documentation, sections 55.2.1 and 55.7).

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};

/// Protocol 3.0 as the start-up message has it.
const PROTOCOL: u32 = 3 << 16;
/// No message of a start-up is longer; more means that this is no PostgreSQL server.
const LONGEST: usize = 1 << 16;
const PATIENCE: Duration = Duration::from_secs(5);

/// Connects, waits until the server is ready for a query, and says goodbye. Gives the version that
/// the server reports of itself (`server_version`; documentation, section 55.2.7).
///
/// # Errors
/// When nobody listens, or with the server's own words when it refuses.
pub fn ping(socket: &Path, user: &str, database: &str) -> anyhow::Result<Option<String>> {
    let mut stream = UnixStream::connect(socket)
        .with_context(|| format!("cannot connect to `{}`", socket.display()))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    handshake(&mut stream, user, database)
}

/// Whether the server in this data directory has written that it accepts connections: the last line
/// of `postmaster.pid`, as `pg_ctl` reads it. Servers before 10 do not write it: `true`.
pub fn says_ready(data: &Path) -> bool {
    let read = |name| std::fs::read_to_string(data.join(name)).unwrap_or_default();
    read("PG_VERSION").starts_with("9.")
        || read("postmaster.pid").lines().nth(7).is_some_and(|line| line.trim() == "ready")
}

fn handshake(
    stream: &mut (impl Read + Write),
    user: &str,
    database: &str,
) -> anyhow::Result<Option<String>> {
    let mut version = None;
    stream.write_all(&startup(user, database)).context("the server hangs up")?;
    loop {
        let (kind, body) = message(stream)?;
        match kind {
            // AuthenticationOk has the number 0; any other wants a password.
            b'R' if body == [0, 0, 0, 0] => {}
            b'R' => bail!("the server asks for a password"),
            b'E' => bail!("the server says: {}", complaint(&body)),
            b'Z' => break,
            b'S' => version = version.or_else(|| parameter(&body, "server_version")),
            // BackendKeyData, NoticeResponse and what later versions add.
            _ => {}
        }
    }
    // Terminate; the server may be gone already.
    let _ = stream.write_all(&[b'X', 0, 0, 0, 4]);
    Ok(version)
}

/// The value of a ParameterStatus message, if it is about this parameter.
fn parameter(body: &[u8], wanted: &str) -> Option<String> {
    let mut texts = body.split(|byte| *byte == 0);
    let name = texts.next()?;
    (name == wanted.as_bytes())
        .then(|| String::from_utf8_lossy(texts.next().unwrap_or_default()).into())
}

fn startup(user: &str, database: &str) -> Vec<u8> {
    let mut body = PROTOCOL.to_be_bytes().to_vec();
    for word in ["user", user, "database", database] {
        body.extend_from_slice(word.as_bytes());
        body.push(0);
    }
    body.push(0);
    let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), body.as_slice()].concat()
}

fn message(stream: &mut impl Read) -> anyhow::Result<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    stream.read_exact(&mut head).context("the server hangs up")?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if !(4..LONGEST).contains(&length) {
        bail!("the answer is not PostgreSQL's protocol (a message of {length} bytes)");
    }
    let mut body = vec![0; length - 4];
    stream.read_exact(&mut body).context("the server hangs up")?;
    Ok((head[0], body))
}

/// The message (`M`) and code (`C`) among the fields of an ErrorResponse.
fn complaint(body: &[u8]) -> String {
    let field = |kind: u8| {
        body.split(|byte| *byte == 0)
            .find(|field| field.first() == Some(&kind))
            .map_or_else(String::new, |field| String::from_utf8_lossy(&field[1..]).into_owned())
    };
    format!("{} ({})", field(b'M'), field(b'C'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a server sent, and what it was sent.
    struct Script(std::io::Cursor<Vec<u8>>, Vec<u8>);

    impl Read for Script {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Script {
        fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
            self.1.write(buffer)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn talk(answer: &[u8]) -> (anyhow::Result<Option<String>>, Vec<u8>) {
        let mut script = Script(std::io::Cursor::new(answer.to_vec()), Vec::new());
        let result = handshake(&mut script, "m", "d");
        (result, script.1)
    }

    #[test]
    fn ready_server() {
        let (result, sent) = talk(b"R\0\0\0\x08\0\0\0\0S\0\0\0\x08a\0b\0Z\0\0\0\x05I");
        assert_eq!(result.expect("ready"), None);
        assert_eq!(sent, b"\0\0\0\x1b\0\x03\0\0user\0m\0database\0d\0\0X\0\0\0\x04");
    }

    #[test]
    fn the_version_is_heard() {
        let status = b"S\0\0\0\x19server_version\x0015.18\0";
        let answer = [b"R\0\0\0\x08\0\0\0\0", &status[..], b"Z\0\0\0\x05I"].concat();
        assert_eq!(talk(&answer).0.expect("ready").as_deref(), Some("15.18"));
    }

    #[test]
    fn refusals_say_why() {
        let text = |answer: &[u8]| talk(answer).0.expect_err("refused").to_string();
        let starting = b"E\0\0\0\x22SFATAL\0C57P03\0Mstarting up\0\0";
        let mut starting = starting.to_vec();
        starting[4] = (starting.len() - 1) as u8;
        assert_eq!(text(&starting), "the server says: starting up (57P03)");
        assert_eq!(text(b"R\0\0\0\x08\0\0\0\x03"), "the server asks for a password");
        assert_eq!(text(b""), "the server hangs up");
        assert!(text(b"HTTP/1.1 400 Bad Request").contains("not PostgreSQL's protocol"));
    }
}
