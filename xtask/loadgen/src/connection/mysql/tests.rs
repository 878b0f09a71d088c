//! The protocol against a scripted server: what it sends lies in the socket before it is asked.

use std::io::Read as _;

use proptest::prelude::*;

use super::*;

const NONCE: &[u8] = b"ABCDEFGHIJKLMNOPQRST";
const ALL: u32 = u32::MAX;
const NO_EOF: u32 = ALL & !capability::DEPRECATE_EOF;

fn server() -> Server {
    Server {
        protocol: catalog::protocol::WireProtocol::Mysql,
        socket: String::new(),
        user: "me".to_owned(),
        database: "d".to_owned(),
    }
}

/// A connection to which the other end has sent these payloads, the first with the number `first`.
fn connection(first: u8, payloads: &[&[u8]]) -> (Mysql, UnixStream) {
    let (stream, mut other) = UnixStream::pair().unwrap();
    let mut number = first;
    for payload in payloads {
        let length = (payload.len() as u32).to_le_bytes();
        other.write_all(&[length[0], length[1], length[2], number]).unwrap();
        other.write_all(payload).unwrap();
        number = number.wrapping_add(1);
    }
    (Mysql::over(stream, &server()), other)
}

/// A connection past its start, with answers to one command.
fn started(capabilities: u32, answers: &[&[u8]]) -> (Mysql, UnixStream) {
    let (mut connection, other) = connection(1, answers);
    connection.capabilities = capabilities;
    (connection, other)
}

/// What the connection has sent until it was closed.
fn sent(connection: Mysql, mut other: UnixStream) -> Vec<u8> {
    drop(connection);
    let mut bytes = Vec::new();
    other.read_to_end(&mut bytes).unwrap();
    bytes.strip_suffix(b"\x01\0\0\0\x01").expect("it ends with its good-bye").to_vec()
}

fn greeting(capabilities: u32, method: &str) -> Vec<u8> {
    let [a, b, c, d] = capabilities.to_le_bytes();
    let mut payload = b"\x0a5.7.1\0\x09\0\0\0ABCDEFGH\0".to_vec();
    payload.extend_from_slice(&[a, b, 45, 2, 0, c, d, 21]);
    payload.extend_from_slice(&[0; 10]);
    payload.extend_from_slice(b"IJKLMNOPQRST\0");
    payload.extend_from_slice(method.as_bytes());
    payload.push(0);
    payload
}

fn column() -> Vec<u8> {
    b"\x03def\x01d\x01t\x01t\x01c\x01c\x0c\x2d\0\x78\0\0\0\xfe\0\0\0\0\0".to_vec()
}

/// Starts a connection; what came of it and what it has sent.
fn start(password: &[u8], method: &str, answers: &[&[u8]]) -> (anyhow::Result<u32>, Vec<u8>) {
    let greeting = greeting(ALL, method);
    let (stream, mut other) = UnixStream::pair().unwrap();
    // The client answers each payload but the last, so every second number is its own.
    let mut number = 0u8;
    for payload in [&[greeting.as_slice()], answers].concat() {
        other.write_all(&[payload.len() as u8, 0, 0, number]).unwrap();
        other.write_all(payload).unwrap();
        // After a hint that it knows the answer the server goes on by itself.
        number += if payload == b"\x01\x03" { 1 } else { 2 };
    }
    let mut connection = Mysql::over(stream, &server());
    let started = connection.start(password).map(|()| connection.thread);
    (started, sent(connection, other))
}

const WELCOME: &[u8] = b"\0\0\0\x02\0\0\0";

#[test]
fn each_method_is_answered() {
    for method in [Method::Native, Method::CachingSha2] {
        let (thread, sent) = start(b"secret", method.name(), &[WELCOME]);
        assert_eq!(thread.unwrap(), 9);
        let answer = method.answer(b"secret", NONCE);
        let expected = [b"me\0", [answer.len() as u8].as_slice(), &answer, b"d\0"].concat();
        let end = [expected.as_slice(), method.name().as_bytes(), b"\0"].concat();
        assert!(sent.ends_with(&end), "{sent:?}");
        let capabilities = u32::from_le_bytes(sent[4..8].try_into().unwrap());
        assert_eq!(capabilities, WANTED);
    }
}

#[test]
fn a_server_that_wants_another_method_gets_it() {
    let other = b"\xfemysql_native_password\0abcdefghijklmnopqrst\0";
    for (greeted, password) in [("caching_sha2_password", "p"), ("sha256_password", "")] {
        let (thread, sent) = start(password.as_bytes(), greeted, &[other, WELCOME]);
        assert_eq!(thread.unwrap(), 9);
        let answer = Method::Native.answer(password.as_bytes(), b"abcdefghijklmnopqrst");
        let packet = [&[answer.len() as u8, 0, 0, 3], answer.as_slice()].concat();
        assert!(sent.ends_with(&packet), "{sent:?}");
    }
}

#[test]
fn the_password_itself_is_sent_only_when_it_is_asked_for() {
    let plain = b"secret\0";
    let contains = |sent: &[u8]| sent.windows(plain.len()).any(|part| part == plain);
    let (known, sent) = start(b"secret", "caching_sha2_password", &[b"\x01\x03", WELCOME]);
    assert_eq!(known.unwrap(), 9);
    assert!(!contains(&sent));
    let (asked, sent) = start(b"secret", "caching_sha2_password", &[b"\x01\x04", WELCOME]);
    assert_eq!(asked.unwrap(), 9);
    assert!(sent.ends_with(b"\x07\0\0\x03secret\0"), "{sent:?}");
    // No other method asks that way.
    let (wrong, sent) = start(b"secret", "mysql_native_password", &[b"\x01\x04", WELCOME]);
    assert!(wrong.unwrap_err().to_string().contains("no place in an authentication"));
    assert!(!contains(&sent));
}

#[test]
fn who_is_not_let_in_learns_why() {
    let error = |answer: &[u8]| format!("{:#}", start(b"", "x", &[answer]).0.unwrap_err());
    let unknown = error(b"\xfeclient_ed25519\0abc");
    assert!(unknown.contains("`client_ed25519`") && unknown.contains("`me`"), "{unknown}");
    assert!(unknown.contains("`caching_sha2_password`"), "{unknown}");
    assert!(error(b"\xfe").contains("`mysql_old_password`"));
    let denied = error(b"\xff\x15\x04#28000Access denied");
    assert!(denied.contains("`MYSQL_PWD`") && denied.contains("Access denied"), "{denied}");
    assert!(error(b"\xfename without end").contains("without an end"));

    let (mut full, _other) = connection(0, &[b"\xff\x10\x04Too many connections"]);
    let error = full.start(b"").unwrap_err().to_string();
    assert!(error.contains("Too many connections"), "{error}");
    let old = greeting(ALL & !capability::PLUGIN_AUTH, "");
    let (mut old, _other) = connection(0, &[&old]);
    let error = old.start(b"").unwrap_err().to_string();
    assert!(error.contains("0x80000"), "{error}");
}

#[test]
fn a_prepared_statement_is_prepared_and_executed_in_both_forms() {
    let described = b"\0\x05\0\0\0\x01\0\x02\0\0\0\0";
    let column = column();
    let row = b"\0\0\x02ab";
    let eof = b"\xfe\0\0\x01\0";
    let ok = b"\xfe\0\0\x01\0\0\0";
    for (capabilities, prepared, result) in [
        (
            ALL,
            vec![described.as_slice(), &column, &column, &column],
            vec![b"\x01".as_slice(), &column, row, row, ok],
        ),
        (
            NO_EOF,
            vec![described.as_slice(), &column, &column, eof, &column, eof],
            vec![b"\x01".as_slice(), &column, eof, row, row, eof],
        ),
    ] {
        let (mut connection, other) = started(capabilities, &prepared);
        let handle = connection.prepare("SELECT ?, ?").unwrap();
        assert!(matches!(connection.statements[0], Statement::Prepared { id: 5, params: 2, .. }));
        assert_eq!(handle, Prepared(0));
        assert_eq!(sent(connection, other), b"\x0c\0\0\0\x16SELECT ?, ?");

        let (mut connection, other) = started(capabilities, &result);
        connection.statements.push(Statement::Prepared { id: 5, params: 2, typed: false });
        let mut params = Params::default();
        params.push_number(1);
        params.push_number(2);
        let mut rows = Rows::new();
        let done = connection.execute(handle, &params, Some(&mut rows)).unwrap();
        assert_eq!(done, Done { rows: 2, affected: 0 });
        assert_eq!(rows, vec![vec![Some("ab".to_owned())]; 2]);
        assert!(connection.in_transaction());
        assert!(matches!(connection.statements[0], Statement::Prepared { typed: true, .. }));
        // Another number of values is no statement of the server's.
        params.push_number(3);
        let error = connection.execute(handle, &params, None).unwrap_err().to_string();
        assert!(error.contains("takes 2 values, it was given 3"), "{error}");
        assert_eq!(sent(connection, other)[..6], *b"\x20\0\0\0\x17\x05");
    }
}

#[test]
fn what_cannot_be_prepared_is_sent_as_text() {
    let refused = b"\xff\x0f\x05#HY000This command is not supported in the prepared statement";
    let (mut connection, other) = started(ALL, &[refused]);
    let handle = connection.prepare("BEGIN").unwrap();
    assert!(matches!(&connection.statements[0], Statement::Text(sql) if sql == "BEGIN"));
    sent(connection, other);
    let (mut connection, other) = started(ALL, &[b"\0\0\0\x03\0\0\0"]);
    connection.statements.push(Statement::Text("BEGIN".to_owned()));
    assert_eq!(connection.execute(handle, &Params::default(), None).unwrap(), Done::default());
    assert!(connection.in_transaction());
    assert_eq!(sent(connection, other), b"\x06\0\0\0\x03BEGIN");
    // One with values has no text without them.
    let (mut connection, _other) = started(ALL, &[refused]);
    let error = connection.prepare("SHOW ?").unwrap_err().to_string();
    assert!(error.contains("error 1295"), "{error}");
}

#[test]
fn several_results_are_read_to_the_last() {
    let answers = [b"\0\x02\0\x08\0\0\0".as_slice(), b"\0\x03\0\0\0\0\0"];
    let (mut connection, _other) = started(ALL, &answers);
    assert_eq!(connection.query(b"CALL p", None).unwrap(), Done { rows: 0, affected: 5 });
}

#[test]
fn a_refused_statement_keeps_the_connection() {
    let (mut connection, _other) = started(ALL, &[b"\xff\xbd\x04#40001Deadlock found"]);
    connection.status = wire::IN_TRANSACTION;
    let error = connection.query(b"UPDATE t", None).unwrap_err();
    assert_eq!(error.expected().as_deref(), Some("1213"));
    assert!(connection.in_transaction());
    let others = [b"\xff\x4a\x04#42000no such thing".as_slice(), b"\xff\x1d\x04#08S01bye"];
    for payload in others {
        assert_eq!(wire::failure(payload).expected(), None);
    }
}

#[test]
fn an_error_among_rows_is_the_result() {
    let answers = [b"\x01".as_slice(), &column(), b"\x02ab", b"\xff\x25\x05#70100interrupted"];
    let (mut connection, _other) = started(ALL, &answers);
    let error = connection.query(b"SELECT c", None).unwrap_err().to_string();
    assert!(error.contains("interrupted (SQLSTATE 70100, error 1317)"), "{error}");
}

#[test]
fn what_has_no_place_is_an_error() {
    for (answers, said) in [
        (vec![b"".as_slice()], "empty payload"),
        (vec![b"\xfb/etc/passwd"], "a file"),
        (vec![b"\x01", b"\x03de"], "cut short"),
        (vec![b"\x01"], "closed the connection"),
    ] {
        let (mut connection, other) = started(ALL, &answers);
        other.shutdown(Shutdown::Write).unwrap();
        let mut rows = Rows::new();
        let error = connection.query(b"SELECT c", Some(&mut rows)).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn many_rows_are_as_many_statements_as_pieces() {
    let (mut connection, other) = started(ALL, &[b"\0\x02\0\0\0\0\0"]);
    let mut pieces = vec![b"(1),(2)".to_vec()];
    let mut fill = |out: &mut Vec<u8>| out.extend(pieces.pop().unwrap_or_default());
    let done = connection.bulk("INSERT INTO t VALUES ", &mut fill).unwrap();
    assert_eq!(done.affected, 2);
    assert_eq!(sent(connection, other), b"\x1d\0\0\0\x03INSERT INTO t VALUES (1),(2)");
}

proptest! {
    #[test]
    fn no_answer_makes_a_panic(
        answers in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..12),
        first in prop::option::of(0u8..4),
        capabilities in prop::sample::select(vec![ALL, NO_EOF]),
    ) {
        let mut answers = answers;
        // A result of few columns gets further than what is wrong at once.
        if let Some(columns) = first {
            answers[0] = vec![columns];
        }
        let answers: Vec<&[u8]> = answers.iter().map(Vec::as_slice).collect();
        let mut rows = Rows::new();
        for attempt in 0..4 {
            let (mut connection, other) = started(capabilities, &answers);
            other.shutdown(Shutdown::Write).unwrap();
            connection.statements.push(Statement::Prepared { id: 1, params: 0, typed: true });
            // Whatever comes of it: an answer or an error.
            let failed = match attempt {
                0 => connection.query(b"", Some(&mut rows)).is_err(),
                1 => connection.execute(Prepared(0), &Params::default(), Some(&mut rows)).is_err(),
                2 => connection.prepare("").is_err(),
                _ => connection.start(b"p").is_err(),
            };
            prop_assert!(failed || !answers[0].is_empty());
        }
    }
}
