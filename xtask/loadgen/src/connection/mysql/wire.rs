//! What payloads hold. Every length is checked against what is there: whatever a server sends, the
//! worst is an error.
//!
//! Source: MySQL source documentation, "Client/Server Protocol", sections "Connection Phase" and
//! "Command Phase".

use anyhow::{Context as _, bail, ensure};

use super::packets::{HEADER, MOST_PART};
use crate::connection::Error;
use crate::params::{Params, Value};

/// Capabilities that both sides may have.
pub mod capability {
    /// Affected rows are those found, also where a new value equals the old one.
    pub const FOUND_ROWS: u32 = 1 << 1;
    /// Columns have two bytes of flags.
    pub const LONG_FLAG: u32 = 1 << 2;
    /// A database is named.
    pub const CONNECT_WITH_DB: u32 = 1 << 3;
    /// The protocol since 4.1.
    pub const PROTOCOL_41: u32 = 1 << 9;
    /// The status flags tell of transactions.
    pub const TRANSACTIONS: u32 = 1 << 13;
    /// The authentication since 4.1.
    pub const SECURE_CONNECTION: u32 = 1 << 15;
    /// Methods of authentication have names.
    pub const PLUGIN_AUTH: u32 = 1 << 19;
    /// Results end with an OK payload, and nothing stands between columns and rows.
    pub const DEPRECATE_EOF: u32 = 1 << 24;
}

/// Status: a transaction is open.
pub const IN_TRANSACTION: u16 = 1;
/// Status: another result follows.
pub const MORE_RESULTS: u16 = 8;

/// First byte of the payload of success, and of a binary row.
pub const OK: u8 = 0x00;
/// First byte of more data for the authentication.
pub const MORE_DATA: u8 = 0x01;
/// First byte of the end of a result, or of another authentication.
pub const EOF: u8 = 0xfe;
/// First byte of the payload of failure.
pub const ERROR: u8 = 0xff;
/// First byte of a text value that is NULL, and of a wish to read a file of the client.
const NULL: u8 = 0xfb;

const COM_STMT_EXECUTE: u8 = 0x17;
const TYPE_LONGLONG: u16 = 8;
const TYPE_STRING: u16 = 254;
const FLAG_UNSIGNED: u16 = 1 << 5;
/// More columns no table has.
const MOST_COLUMNS: u64 = 4096;

/// A payload from its first byte to its last.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> anyhow::Result<&'a [u8]> {
        let (bytes, rest) = self
            .0
            .split_at_checked(count)
            .context("the server sent a payload that is cut short")?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> anyhow::Result<[u8; N]> {
        Ok(self.bytes(N)?.try_into()?)
    }

    /// One byte.
    pub fn u8(&mut self) -> anyhow::Result<u8> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// Two bytes.
    pub fn u16(&mut self) -> anyhow::Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Four bytes.
    pub fn u32(&mut self) -> anyhow::Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> anyhow::Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A number in one, three, four or nine bytes.
    pub fn number(&mut self) -> anyhow::Result<u64> {
        Ok(match self.u8()? {
            small @ 0..=0xfa => small.into(),
            0xfc => self.u16()?.into(),
            0xfd => {
                let [a, b, c] = self.array()?;
                u32::from_le_bytes([a, b, c, 0]).into()
            }
            0xfe => self.u64()?,
            other => bail!("the server sent a number that begins with the byte {other:#x}"),
        })
    }

    /// Bytes after their length.
    pub fn counted(&mut self) -> anyhow::Result<&'a [u8]> {
        let length = usize::try_from(self.number()?)?;
        self.bytes(length)
    }

    /// Bytes before a zero.
    pub fn terminated(&mut self) -> anyhow::Result<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0);
        let bytes = self.bytes(end.context("the server sent a name without an end")?)?;
        self.bytes(1)?;
        Ok(bytes)
    }
}

/// What a server says first.
#[derive(Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The number of the connection, for KILL.
    pub thread: u32,
    /// What the server can.
    pub capabilities: u32,
    /// The method of authentication that it would use.
    pub method: String,
    /// Random bytes.
    pub nonce: Vec<u8>,
}

/// Reads a greeting of the version 10.
///
/// # Errors
///
/// When it is none.
pub fn greeting(payload: &[u8]) -> anyhow::Result<Greeting> {
    let mut reader = Reader(payload);
    let version = reader.u8()?;
    ensure!(version == 10, "it greets with version {version} of the protocol, not 10");
    reader.terminated()?;
    let thread = reader.u32()?;
    let mut nonce = reader.bytes(8)?.to_vec();
    reader.bytes(1)?;
    let low = reader.u16()?;
    reader.bytes(3)?;
    let capabilities = u32::from(low) | u32::from(reader.u16()?) << 16;
    let length = usize::from(reader.u8()?);
    reader.bytes(10)?;
    // At least 13 bytes, the last of which is a zero.
    nonce.extend_from_slice(without_zero(reader.bytes(length.saturating_sub(8).max(13))?));
    let method = if capabilities & capability::PLUGIN_AUTH == 0 {
        String::new()
    } else {
        String::from_utf8_lossy(without_zero(reader.0)).into_owned()
    };
    Ok(Greeting { thread, capabilities, method, nonce })
}

/// Without the zero at the end, which some servers send and some do not.
pub fn without_zero(bytes: &[u8]) -> &[u8] {
    bytes.strip_suffix(&[0]).unwrap_or(bytes)
}

/// Appends the answer to a greeting. `answer` proves the password and is short.
pub fn push_login(
    capabilities: u32,
    user: &str,
    database: &str,
    (method, answer): (&str, &[u8]),
    out: &mut Vec<u8>,
) {
    /// As other clients say; what is sent and received stays far below.
    const MOST_PACKET: u32 = 1 << 30;
    /// `utf8mb4_general_ci`: what clients of today ask for, and all servers know.
    const CHARACTER_SET: u8 = 45;
    out.extend_from_slice(&capabilities.to_le_bytes());
    out.extend_from_slice(&MOST_PACKET.to_le_bytes());
    out.push(CHARACTER_SET);
    out.extend_from_slice(&[0; 23]);
    push_terminated(user, out);
    debug_assert!(answer.len() < usize::from(NULL));
    out.push(answer.len() as u8);
    out.extend_from_slice(answer);
    push_terminated(database, out);
    push_terminated(method, out);
}

/// A name cannot hold the zero that ends it.
fn push_terminated(text: &str, out: &mut Vec<u8>) {
    out.extend(text.bytes().filter(|byte| *byte != 0));
    out.push(0);
}

/// What a payload of success says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Success {
    /// Rows that were changed.
    pub affected: u64,
    /// The status flags.
    pub status: u16,
}

/// Reads a payload of success, also one that ends a result (first byte [`EOF`]).
///
/// # Errors
///
/// When it is cut short.
#[inline]
pub fn success(payload: &[u8]) -> anyhow::Result<Success> {
    let mut reader = Reader(payload);
    reader.u8()?;
    let affected = reader.number()?;
    reader.number()?;
    Ok(Success { affected, status: reader.u16()? })
}

/// The status flags, when this payload is the end of the rows and not one of them.
///
/// # Errors
///
/// When it is cut short.
#[inline]
pub fn end(payload: &[u8], deprecates_eof: bool) -> anyhow::Result<Option<u16>> {
    // A row may begin with the same byte, but only for a value of 2^24 bytes or more.
    let shorter_than = if deprecates_eof { MOST_PART } else { 9 };
    if payload.first() != Some(&EOF) || payload.len() >= shorter_than {
        return Ok(None);
    }
    if deprecates_eof {
        return Ok(Some(success(payload)?.status));
    }
    let mut reader = Reader(payload);
    reader.bytes(3)?;
    Ok(Some(reader.u16()?))
}

/// Reads a payload of failure.
pub fn failure(payload: &[u8]) -> Error {
    /// The server ends the connection: killed (MariaDB), nothing heard for too long (MySQL).
    const FATAL: [u16; 2] = [1927, 4031];
    let read = || -> anyhow::Result<Error> {
        let mut reader = Reader(payload);
        reader.u8()?;
        let number = reader.u16()?;
        // A server that has not yet heard what the client can leaves the state out.
        let sqlstate = match reader.0.first() {
            Some(b'#') => &reader.bytes(6)?[1..],
            _ => b"HY000",
        };
        let sqlstate = String::from_utf8_lossy(sqlstate).into_owned();
        // Class 08: the connection.
        let fatal = sqlstate.starts_with("08") || FATAL.contains(&number);
        let message = String::from_utf8_lossy(reader.0).into_owned();
        Ok(Error::Server { sqlstate, number: Some(number), message, fatal })
    };
    read().unwrap_or_else(Error::Connection)
}

/// The number of columns of a result.
///
/// # Errors
///
/// When the payload is something else.
pub fn columns(payload: &[u8]) -> anyhow::Result<usize> {
    ensure!(payload.first() != Some(&NULL), "the server asks for a file, which nobody offered");
    let mut reader = Reader(payload);
    let count = reader.number()?;
    let plausible = (1..=MOST_COLUMNS).contains(&count) && reader.0.is_empty();
    ensure!(plausible, "the server sent what has no place before a result");
    Ok(usize::try_from(count)?)
}

/// What reading a value needs to know of its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    kind: u8,
    unsigned: bool,
}

/// Reads a column's description.
///
/// # Errors
///
/// When it is cut short.
pub fn column(payload: &[u8]) -> anyhow::Result<Column> {
    let mut reader = Reader(payload);
    // Catalogue, schema, table twice, name twice.
    for _ in 0..6 {
        reader.counted()?;
    }
    // Length of the rest, character set, width.
    reader.number()?;
    reader.bytes(6)?;
    let kind = reader.u8()?;
    Ok(Column { kind, unsigned: reader.u16()? & FLAG_UNSIGNED != 0 })
}

/// A row of a statement that was sent as text.
///
/// # Errors
///
/// When it does not have that many values.
pub fn text_row(payload: &[u8], columns: &[Column]) -> anyhow::Result<Vec<Option<String>>> {
    let mut reader = Reader(payload);
    let value = |_: &Column| {
        if reader.0.first() == Some(&NULL) {
            reader.bytes(1)?;
            return Ok(None);
        }
        Ok(Some(String::from_utf8_lossy(reader.counted()?).into_owned()))
    };
    let row = columns.iter().map(value).collect::<anyhow::Result<_>>()?;
    ensure!(reader.0.is_empty(), "the server sent a row with more values than columns");
    Ok(row)
}

/// A row of a prepared statement.
///
/// # Errors
///
/// When it does not have those values, or one is of a type that no microbenchmark has.
pub fn binary_row(payload: &[u8], columns: &[Column]) -> anyhow::Result<Vec<Option<String>>> {
    let mut reader = Reader(payload);
    ensure!(reader.u8()? == OK, "the server sent a row in another form than asked for");
    // The first two bits of the bitmap stand for no column.
    let nulls = reader.bytes((columns.len() + 2).div_ceil(8))?;
    let value = |(at, column): (usize, &Column)| {
        let bit = at + 2;
        let null = nulls[bit / 8] >> (bit % 8) & 1 == 1;
        if null { Ok(None) } else { binary_value(&mut reader, *column).map(Some) }
    };
    let row = columns.iter().enumerate().map(value).collect::<anyhow::Result<_>>()?;
    ensure!(reader.0.is_empty(), "the server sent a row with more values than columns");
    Ok(row)
}

fn binary_value(reader: &mut Reader<'_>, column: Column) -> anyhow::Result<String> {
    Ok(match (column.kind, column.unsigned) {
        // LONG and INT24.
        (3 | 9, false) => reader.u32()?.cast_signed().to_string(),
        (3 | 9, true) => reader.u32()?.to_string(),
        // LONGLONG.
        (8, false) => reader.u64()?.cast_signed().to_string(),
        (8, true) => reader.u64()?.to_string(),
        // VARCHAR; NEWDECIMAL; the BLOBs, VAR_STRING and STRING.
        (15 | 246 | 249..=254, _) => String::from_utf8_lossy(reader.counted()?).into_owned(),
        (kind, _) => bail!("the server sent a value of type {kind}, which no statement asks for"),
    })
}

/// What a server says of a prepared statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    /// The statement's number.
    pub id: u32,
    /// Columns of its result.
    pub columns: u16,
    /// Values that it needs.
    pub params: u16,
}

/// Reads the first payload of an answer to a wish to prepare.
///
/// # Errors
///
/// When it is something else.
pub fn description(payload: &[u8]) -> anyhow::Result<Description> {
    let mut reader = Reader(payload);
    ensure!(reader.u8()? == OK, "the server sent what is no description of a statement");
    Ok(Description { id: reader.u32()?, columns: reader.u16()?, params: reader.u16()? })
}

/// Begins a command, with room for the header of its packet.
#[inline]
pub fn begin(command: u8, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[0; HEADER]);
    out.push(command);
}

/// Begins an execution of statement `id` with these values. Their types are sent only `with_types`:
/// the server keeps them from one execution to the next.
#[inline]
pub fn begin_execute(id: u32, params: &Params, with_types: bool, out: &mut Vec<u8>) {
    /// All rows at once, no cursor.
    const NO_CURSOR: u8 = 0;
    const ONCE: u32 = 1;
    begin(COM_STMT_EXECUTE, out);
    out.extend_from_slice(&id.to_le_bytes());
    out.push(NO_CURSOR);
    out.extend_from_slice(&ONCE.to_le_bytes());
    if params.len() == 0 {
        return;
    }
    // None is NULL.
    out.resize(out.len() + params.len().div_ceil(8), 0);
    out.push(u8::from(with_types));
    if with_types {
        for value in params.iter() {
            let kind = match value {
                Value::Number(_) => TYPE_LONGLONG,
                Value::Text(_) => TYPE_STRING,
            };
            out.extend_from_slice(&kind.to_le_bytes());
        }
    }
    for value in params.iter() {
        match value {
            Value::Number(number) => out.extend_from_slice(&number.to_le_bytes()),
            Value::Text(text) => {
                push_number(text.len() as u64, out);
                out.extend_from_slice(text);
            }
        }
    }
}

/// Appends a number in one, three, four or nine bytes.
fn push_number(number: u64, out: &mut Vec<u8>) {
    let bytes = number.to_le_bytes();
    match number {
        0..=0xfa => out.push(bytes[0]),
        0xfb..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&bytes[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&bytes);
        }
    }
}

#[cfg(test)]
mod tests;
