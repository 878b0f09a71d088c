//! The protocol against a scripted server: a thread at the other end of a socket.

use std::io::Read as _;

use super::*;

/// A connection with `answers`, which the other end sends in turn, one per message from the connection
/// that wants an answer (Query, Sync), and then closes.
fn connection(answers: Vec<Vec<u8>>) -> (Postgres, std::thread::JoinHandle<Vec<u8>>) {
    let (stream, mut other) = UnixStream::pair().unwrap();
    let server = std::thread::spawn(move || {
        let mut seen = Vec::new();
        for answer in answers {
            let mut header = [0; 5];
            loop {
                other.read_exact(&mut header).unwrap();
                let length = u32::from_be_bytes(header[1..].try_into().unwrap()) as usize;
                let mut body = vec![0; length - 4];
                other.read_exact(&mut body).unwrap();
                seen.extend_from_slice(&header);
                seen.extend_from_slice(&body);
                if matches!(header[0], b'Q' | b'S' | b'c') {
                    break;
                }
            }
            other.write_all(&answer).unwrap();
        }
        seen
    });
    let mut connection = over(stream);
    connection.names.push("s0".to_owned());
    (connection, server)
}

fn over(stream: UnixStream) -> Postgres {
    Postgres {
        stream,
        socket: String::new(),
        frames: Frames::default(),
        out: BytesMut::new(),
        names: Vec::new(),
        status: IDLE,
        process_id: 0,
        secret_key: 0,
    }
}

/// Starts a connection with a server that sends `answer`.
fn start(answer: &[u8]) -> anyhow::Result<Postgres> {
    let (stream, mut other) = UnixStream::pair().unwrap();
    other.write_all(answer).unwrap();
    let mut connection = over(stream);
    let server = Server {
        protocol: catalog::protocol::WireProtocol::Postgres,
        socket: String::new(),
        user: "me".to_owned(),
        database: "d".to_owned(),
    };
    connection.start(&server)?;
    Ok(connection)
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[tag], length.as_slice(), body].concat()
}

fn ready(status: u8) -> Vec<u8> {
    message(b'Z', &[status])
}

fn params(values: &[&str]) -> Params {
    let mut params = Params::default();
    values.iter().for_each(|v| params.push_text(|out| out.extend_from_slice(v.as_bytes())));
    params
}

#[test]
fn a_prepared_statement_is_one_bind_execute_sync() {
    let row = message(b'D', b"\0\x02\0\0\0\x02ab\xff\xff\xff\xff");
    let complete = message(b'C', b"SELECT 2\0");
    let answer = [message(b'2', b""), row.clone(), row, complete, ready(b'T')].concat();
    let (mut connection, server) = connection(vec![answer]);
    let mut rows = Rows::new();
    let done = connection.execute(Prepared(0), &params(&["17", "x"]), Some(&mut rows)).unwrap();
    assert_eq!(done, Done { rows: 2, affected: 2 });
    assert_eq!(rows, vec![vec![Some("ab".to_owned()), None]; 2]);
    assert!(connection.in_transaction());
    let bind = b"\0s0\0\0\0\0\x02\0\0\0\x0217\0\0\0\x01x\0\0";
    let execute = message(b'E', b"\0\0\0\0\0");
    let expected = [message(b'B', bind), execute, message(b'S', b"")].concat();
    assert_eq!(server.join().unwrap(), expected);
}

#[test]
fn a_refused_statement_says_its_state_and_leaves_the_connection_usable() {
    let error = message(b'E', b"SERROR\0VERROR\0C40P01\0Mdeadlock detected\0\0");
    let answers =
        vec![[error, ready(b'E')].concat(), [message(b'C', b"ROLLBACK\0"), ready(b'I')].concat()];
    let (mut connection, server) = connection(answers);
    let error = connection.query(b"UPDATE t", None).unwrap_err();
    assert_eq!(error.expected().as_deref(), Some("40P01"));
    assert_eq!(error.to_string(), "the server says: ERROR: deadlock detected (SQLSTATE 40P01)");
    assert!(connection.in_transaction());
    assert_eq!(connection.query(b"ROLLBACK", None).unwrap(), Done::default());
    assert!(!connection.in_transaction());
    server.join().unwrap();
}

#[test]
fn a_server_that_ends_is_quoted() {
    let error = message(b'E', b"SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0");
    let (mut connection, server) = connection(vec![error]);
    let error = connection.query(b"SELECT 1", None).unwrap_err();
    assert_eq!(error.expected(), None);
    assert!(error.to_string().contains("FATAL: terminating connection"), "{error}");
    server.join().unwrap();
    let error = connection.query(b"SELECT 1", None).unwrap_err();
    assert!(error.to_string().contains("the connection to the server was lost"), "{error}");
}

#[test]
fn what_has_no_place_is_an_error() {
    let (mut connection, server) = connection(vec![message(b'R', b"\0\0\0\0")]);
    let error = connection.query(b"SELECT 1", None).unwrap_err();
    assert!(error.to_string().contains("a message `R`"), "{error}");
    server.join().unwrap();
}

#[test]
fn copy_sends_the_pieces_and_counts() {
    let answers =
        vec![message(b'G', b"\0\0\0"), [message(b'C', b"COPY 3\0"), ready(b'I')].concat()];
    let (mut connection, server) = connection(answers);
    let mut pieces = vec![b"3\n".to_vec(), b"1\n2\n".to_vec()];
    let done = connection.bulk("COPY t", &mut |out| out.extend(pieces.pop().unwrap_or_default()));
    assert_eq!(done.unwrap().affected, 3);
    let expected = [
        message(b'Q', b"COPY t\0"),
        message(b'd', b"1\n2\n"),
        message(b'd', b"3\n"),
        message(b'c', b""),
    ];
    assert_eq!(server.join().unwrap(), expected.concat());
}

#[test]
fn command_tags_end_in_their_count() {
    for (tag, count) in
        [("UPDATE 1", 1), ("INSERT 0 1", 1), ("SELECT 10001", 10_001), ("BEGIN", 0), ("", 0)]
    {
        let body = format!("{tag}\0");
        assert_eq!(affected(&message(b'C', body.as_bytes())), count, "{tag}");
    }
}

#[test]
fn a_trusting_server_gives_what_cancelling_needs() {
    let welcome = message(b'R', b"\0\0\0\0");
    let parameter = message(b'S', b"server_version\x0015.0\0");
    let key = message(b'K', b"\0\0\0\x07\0\0\0\x09");
    let connection = start(&[welcome, parameter, key, ready(b'I')].concat()).unwrap();
    assert_eq!((connection.process_id, connection.secret_key), (7, 9));
    assert!(!connection.in_transaction());
}

#[test]
fn a_server_that_wants_a_password_is_refused_with_what_to_do() {
    for (kind, rest) in [(3, b"".as_slice()), (5, b"salt"), (10, b"SCRAM-SHA-256\0\0")] {
        let answer = message(b'R', &[[0, 0, 0, kind].as_slice(), rest].concat());
        let error = start(&answer).err().unwrap().to_string();
        assert!(error.contains("`me`") && error.contains("trust"), "{error}");
    }
    let error = message(b'E', b"SFATAL\0VFATAL\0C3D000\0Mdatabase \"d\" does not exist\0\0");
    let error = start(&error).err().unwrap().to_string();
    assert!(error.contains("database \"d\" does not exist"), "{error}");
}
