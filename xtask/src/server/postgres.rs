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

/// Connects, waits until the server is ready for a query, and says goodbye.
///
/// # Errors
/// When nobody listens, or with the server's own words when it refuses.
pub fn ping(socket: &Path, user: &str, database: &str) -> anyhow::Result<()> {
    let mut stream = UnixStream::connect(socket)
        .with_context(|| format!("cannot connect to `{}`", socket.display()))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    handshake(&mut stream, user, database)
}

fn handshake(stream: &mut (impl Read + Write), user: &str, database: &str) -> anyhow::Result<()> {
    stream.write_all(&startup(user, database)).context("the server hangs up")?;
    loop {
        let (kind, body) = message(stream)?;
        match kind {
            // AuthenticationOk has the number 0; any other wants a password.
            b'R' if body == [0, 0, 0, 0] => {}
            b'R' => bail!("the server asks for a password"),
            b'E' => bail!("the server says: {}", complaint(&body)),
            b'Z' => break,
            // ParameterStatus, BackendKeyData, NoticeResponse and what later versions add.
            _ => {}
        }
    }
    // Terminate; the server may be gone already.
    let _ = stream.write_all(&[b'X', 0, 0, 0, 4]);
    Ok(())
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

    fn talk(answer: &[u8]) -> (anyhow::Result<()>, Vec<u8>) {
        let mut script = Script(std::io::Cursor::new(answer.to_vec()), Vec::new());
        let result = handshake(&mut script, "m", "d");
        (result, script.1)
    }

    #[test]
    fn ready_server() {
        let (result, sent) = talk(b"R\0\0\0\x08\0\0\0\0S\0\0\0\x08a\0b\0Z\0\0\0\x05I");
        result.expect("ready");
        assert_eq!(sent, b"\0\0\0\x1b\0\x03\0\0user\0m\0database\0d\0\0X\0\0\0\x04");
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
