//! Payloads as servers send them, cut short, and as an attacker would.

use proptest::prelude::*;

use super::*;

/// What MySQL 8.0 says first (version shortened).
const GREETING: &[u8] = b"\x0a8.0.39\0\x09\x01\0\0ABCDEFGH\0\xff\xff\x2d\x02\0\xff\xdf\x15\
    \0\0\0\0\0\0\0\0\0\0IJKLMNOPQRST\0caching_sha2_password\0";

fn text(bytes: &[u8]) -> Option<String> {
    Some(String::from_utf8(bytes.to_vec()).unwrap())
}

/// The description of a column of that type.
fn description_of(kind: u8, flags: u16) -> Vec<u8> {
    let names = b"\x03def\x01d\x07sbtest1\x07sbtest1\x01c\x01c\x0c\x2d\0\x78\0\0\0";
    [names.as_slice(), &[kind], &flags.to_le_bytes(), &[0, 0, 0]].concat()
}

fn columns_of(kinds: &[(u8, u16)]) -> Vec<Column> {
    kinds.iter().map(|(kind, flags)| column(&description_of(*kind, *flags)).unwrap()).collect()
}

#[test]
fn a_greeting_is_taken_apart() {
    let expected = Greeting {
        thread: 265,
        capabilities: 0xdfff_ffff,
        method: "caching_sha2_password".to_owned(),
        nonce: b"ABCDEFGHIJKLMNOPQRST".to_vec(),
    };
    assert_eq!(greeting(GREETING).unwrap(), expected);
    // Some servers end the name, some do not.
    assert_eq!(greeting(&GREETING[..GREETING.len() - 1]).unwrap(), expected);
    let names_begin = GREETING.len() - b"caching_sha2_password\0".len();
    for length in 0..names_begin {
        assert!(greeting(&GREETING[..length]).is_err(), "{length}");
    }
    let error = greeting(b"\x09old").unwrap_err().to_string();
    assert!(error.contains("version 9"), "{error}");
}

#[test]
fn a_login_has_all_its_parts() {
    let mut out = Vec::new();
    push_login(0x0108_0209, "me\0x", "d", ("mysql_native_password", &[1, 2]), &mut out);
    let head = [b"\x09\x02\x08\x01\0\0\0\x40\x2d".as_slice(), &[0; 23]].concat();
    // The zero in the name is left out: it would end it.
    assert_eq!(out, [head.as_slice(), b"mex\0\x02\x01\x02d\0mysql_native_password\0"].concat());
}

#[test]
fn success_tells_rows_and_status() {
    let expected = Success { affected: 300, status: IN_TRANSACTION | 2 };
    assert_eq!(success(b"\0\xfc\x2c\x01\0\x03\0\0\0").unwrap(), expected);
    assert!(success(b"\0\0\0\x03").is_err());
}

#[test]
fn the_end_of_rows_has_two_forms() {
    assert_eq!(end(b"\xfe\0\0\x22\0\0\0", true).unwrap(), Some(0x22));
    assert_eq!(end(b"\xfe\0\0\x22\0", false).unwrap(), Some(0x22));
    assert!(end(b"\xfe\0\0", true).is_err());
    assert!(end(b"\xfe\0\0", false).is_err());
    // Rows: an empty first value, and one so long that its length has eight bytes.
    assert_eq!(end(b"\0", true).unwrap(), None);
    assert_eq!(end(b"\xfe\0\0\0\x01\0\0\0\0", false).unwrap(), None);
    let mut long = vec![0; MOST_PART];
    long[0] = EOF;
    assert_eq!(end(&long, true).unwrap(), None);
}

#[test]
fn failures_have_number_state_and_words() {
    let Error::Server { sqlstate, number, message, fatal } =
        failure(b"\xff\xbd\x04#40001Deadlock found")
    else {
        panic!("no failure of the server")
    };
    assert_eq!((sqlstate.as_str(), number, fatal), ("40001", Some(1213), false));
    assert_eq!(message, "Deadlock found");
    // Before the login there is no state; class 08 and a killed connection are the end of it.
    let too_many = failure(b"\xff\x10\x04Too many connections").to_string();
    let expected = "the server says: Too many connections (SQLSTATE HY000, error 1040)";
    assert_eq!(too_many, expected);
    for payload in [b"\xff\x1d\x04#08S01bye".as_slice(), b"\xff\x87\x07#70100killed"] {
        assert!(matches!(failure(payload), Error::Server { fatal: true, .. }));
    }
    for cut in [b"\xff".as_slice(), b"\xff\xbd", b"\xff\xbd\x04#400"] {
        assert!(matches!(failure(cut), Error::Connection(_)), "{cut:?}");
    }
}

#[test]
fn only_a_count_of_columns_stands_before_rows() {
    assert_eq!(columns(b"\x04").unwrap(), 4);
    assert_eq!(columns(b"\xfc\0\x10").unwrap(), 4096);
    for wrong in [
        b"\0".as_slice(),
        b"\xfc\x01\x10",
        b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x01\0",
        b"\xff",
        b"",
    ] {
        assert!(columns(wrong).is_err(), "{wrong:?}");
    }
    let file = columns(b"\xfb/etc/passwd").unwrap_err().to_string();
    assert!(file.contains("a file"), "{file}");
}

#[test]
fn values_of_a_text_row() {
    let columns = columns_of(&[(3, 0), (254, 0), (254, 0)]);
    let row = text_row(b"\x02-7\xfb\x00", &columns).unwrap();
    assert_eq!(row, [text(b"-7"), None, text(b"")]);
    for wrong in [b"\x02-7\xfb".as_slice(), b"\x02-7\xfb\0\0", b"\xfc\xff\xff-7\xfb\0", b"\xff"] {
        assert!(text_row(wrong, &columns).is_err(), "{wrong:?}");
    }
}

#[test]
fn values_of_a_binary_row() {
    let kinds = [(3, 0), (3, FLAG_UNSIGNED), (8, 0), (8, FLAG_UNSIGNED), (254, 0), (246, 0)];
    let columns = columns_of(&kinds);
    let numbers = [[0xff; 4].as_slice(), &[0xff; 4], &[0xff; 8], &[0xff; 8]].concat();
    let payload = [b"\0\0".as_slice(), &numbers, b"\x02ab\x0212"].concat();
    let row = binary_row(&payload, &columns).unwrap();
    let expected = ["-1", "4294967295", "-1", "18446744073709551615", "ab", "12"];
    assert_eq!(row, expected.map(|value| text(value.as_bytes())));
    for length in 0..payload.len() {
        assert!(binary_row(&payload[..length], &columns).is_err(), "{length}");
    }
    assert!(binary_row(&[payload.as_slice(), b"x"].concat(), &columns).is_err());
    // The first column is the third bit, the seventh the first of the second byte.
    let seven = columns_of(&[(254, 0); 7]);
    let row = binary_row(b"\0\x04\x01\x01b\x01c\x01d\x01e\x01f", &seven).unwrap();
    assert_eq!((&row[0], &row[1], &row[6]), (&None, &text(b"b"), &None));
    let error = binary_row(b"\0\0\0\0\0\0", &columns_of(&[(4, 0)])).unwrap_err().to_string();
    assert!(error.contains("type 4"), "{error}");
}

#[test]
fn an_execution_sends_types_once() {
    let mut params = Params::default();
    params.push_text(|out| out.extend_from_slice(b"ab"));
    params.push_number(0x0102);
    let mut out = Vec::new();
    begin_execute(7, &params, true, &mut out);
    let head = b"\0\0\0\0\x17\x07\0\0\0\0\x01\0\0\0\0".as_slice();
    let values = b"\x02ab\x02\x01\0\0\0\0\0\0".as_slice();
    assert_eq!(out, [head, b"\x01\xfe\0\x08\0", values].concat());
    begin_execute(7, &params, false, &mut out);
    assert_eq!(out, [head, b"\0", values].concat());
    params.clear();
    begin_execute(7, &params, true, &mut out);
    assert_eq!(out, head[..head.len() - 1]);
}

proptest! {
    #[test]
    fn numbers_come_back(number in any::<u64>(), shift in 0u32..64) {
        let number = number >> shift;
        let mut out = Vec::new();
        push_number(number, &mut out);
        let mut reader = Reader(&out);
        prop_assert_eq!(reader.number().unwrap(), number);
        prop_assert!(reader.0.is_empty());
    }

    #[test]
    fn no_payload_makes_a_panic(
        payload in prop::collection::vec(any::<u8>(), 0..200),
        kinds in prop::collection::vec((any::<u8>(), any::<u16>()), 1..12),
    ) {
        // Whatever comes of it: an answer or an error.
        let columns = columns_of(&kinds);
        let _ = (greeting(&payload), success(&payload), self::columns(&payload));
        let _ = (column(&payload), description(&payload), failure(&payload));
        let _ = (end(&payload, true), end(&payload, false));
        let rows = [text_row(&payload, &columns), binary_row(&payload, &columns)];
        for row in rows.into_iter().flatten() {
            prop_assert_eq!(row.len(), columns.len());
        }
    }

    #[test]
    fn a_changed_greeting_makes_no_panic(at in 0..GREETING.len(), byte in any::<u8>()) {
        let mut changed = GREETING.to_vec();
        changed[at] = byte;
        if let Ok(greeting) = greeting(&changed) {
            prop_assert!(greeting.nonce.len() < GREETING.len());
        }
    }
}
