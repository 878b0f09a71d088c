//! PostgreSQL's protocol 3.0 over a Unix socket, blocking: one write and (for small results) one
//! read per statement. Messages are encoded and decoded by `postgres-protocol`; only the frames of
//! a result are walked here, because counting rows needs no message to be taken apart.
//!
//! Source: PostgreSQL documentation, chapter "Frontend/Backend Protocol", "Message Flow" and
//! "Message Formats".

mod frames;

use std::io::Write as _;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, anyhow, bail};
use bytes::{BufMut as _, BytesMut};
use catalog::protocol::Server;
use fallible_iterator::FallibleIterator as _;
use postgres_protocol::IsNull;
use postgres_protocol::message::backend::{self, Message};
use postgres_protocol::message::frontend::{self, CopyData};

use self::frames::Frames;
use super::{Cancel, Connection, Done, Error, Prepared, Rows};
use crate::params::Params;

/// The transaction status of a connection outside a transaction.
const IDLE: u8 = b'I';

/// A connection with a PostgreSQL server.
pub struct Postgres {
    stream: UnixStream,
    /// Where the server is reached, for cancelling.
    socket: String,
    frames: Frames,
    out: BytesMut,
    names: Vec<String>,
    status: u8,
    process_id: i32,
    secret_key: i32,
}

impl Postgres {
    /// Connects, without a password: the server must be a private one that trusts its socket.
    pub fn connect(server: &Server) -> anyhow::Result<Self> {
        let socket = &server.socket;
        let stream = UnixStream::connect(socket)
            .with_context(|| format!("cannot connect to the server at `{socket}`"))?;
        let mut connection = Self {
            stream,
            socket: socket.clone(),
            frames: Frames::default(),
            out: BytesMut::new(),
            names: Vec::new(),
            status: IDLE,
            process_id: 0,
            secret_key: 0,
        };
        connection
            .start(server)
            .with_context(|| format!("cannot start a connection with the server at `{socket}`"))?;
        Ok(connection)
    }

    fn start(&mut self, server: &Server) -> anyhow::Result<()> {
        let parameters = [
            ("user", server.user.as_str()),
            ("database", server.database.as_str()),
            ("application_name", "loadgen"),
        ];
        frontend::startup_message(parameters, &mut self.out)?;
        self.stream.write_all(&self.out)?;
        self.out.clear();
        loop {
            let frame = self.frame()?;
            match parse(&frame)? {
                Message::AuthenticationOk
                | Message::ParameterStatus(_)
                | Message::NoticeResponse(_) => {}
                Message::BackendKeyData(key) => {
                    self.process_id = key.process_id();
                    self.secret_key = key.secret_key();
                }
                Message::ReadyForQuery(ready) => {
                    self.status = ready.status();
                    return Ok(());
                }
                Message::ErrorResponse(_) => return Err(server_error(&frame).into()),
                Message::AuthenticationMd5Password(_)
                | Message::AuthenticationSasl(_)
                | Message::AuthenticationCleartextPassword => bail!(
                    "it asks `{}` for a password, which this driver does not give: let the socket \
                     in with `local all all trust` in pg_hba.conf (or `initdb --auth=trust`)",
                    server.user
                ),
                _ => bail!(
                    "it asks for an authentication that this driver does not have; `trust` is the \
                     only one that it has"
                ),
            }
        }
    }

    /// The next message, copied. Only for the start and for COPY.
    fn frame(&mut self) -> anyhow::Result<Vec<u8>> {
        loop {
            if let Some(frame) = self.frames.next()? {
                return Ok(frame.to_vec());
            }
            self.frames.fill(&mut self.stream)?;
        }
    }

    /// Sends what was encoded, then reads until the server is ready.
    fn round_trip(&mut self, rows: Option<&mut Rows>) -> Result<Done, Error> {
        let sent = self.stream.write_all(&self.out);
        self.out.clear();
        // A server that ends says why before it closes: that is read also when nothing can be sent.
        match (self.read_result(rows), sent) {
            (Err(Error::Connection(_)), Err(error)) => Err(Error::Connection(
                anyhow!(error).context("the connection to the server was lost while sending"),
            )),
            (result, _) => result,
        }
    }

    fn read_result(&mut self, mut rows: Option<&mut Rows>) -> Result<Done, Error> {
        let mut done = Done::default();
        let mut failed = None;
        loop {
            while let Some(frame) = self.frames.next().map_err(Error::Connection)? {
                match frame[0] {
                    backend::DATA_ROW_TAG => {
                        done.rows += 1;
                        if let Some(rows) = &mut rows {
                            rows.push(row(frame).map_err(Error::Connection)?);
                        }
                    }
                    backend::COMMAND_COMPLETE_TAG => done.affected = affected(frame),
                    backend::ERROR_RESPONSE_TAG => failed = Some(server_error(frame)),
                    backend::READY_FOR_QUERY_TAG => {
                        self.status = frame.get(5).copied().unwrap_or_default();
                        return failed.map_or(Ok(done), Err);
                    }
                    backend::BIND_COMPLETE_TAG
                    | backend::PARSE_COMPLETE_TAG
                    | backend::ROW_DESCRIPTION_TAG
                    | backend::NO_DATA_TAG
                    | backend::EMPTY_QUERY_RESPONSE_TAG
                    | backend::NOTICE_RESPONSE_TAG
                    | backend::PARAMETER_STATUS_TAG => {}
                    tag => {
                        return Err(Error::Connection(anyhow!(
                            "the server sent a message `{}` that has no place in a result",
                            char::from(tag)
                        )));
                    }
                }
            }
            if let Err(lost) = self.frames.fill(&mut self.stream) {
                return Err(failed.unwrap_or(Error::Connection(lost)));
            }
        }
    }
}

impl Connection for Postgres {
    fn prepare(&mut self, sql: &str) -> Result<Prepared, Error> {
        let name = format!("s{}", self.names.len());
        frontend::parse(&name, sql, [], &mut self.out).map_err(not_encoded)?;
        frontend::sync(&mut self.out);
        self.round_trip(None)?;
        self.names.push(name);
        Ok(Prepared(self.names.len() - 1))
    }

    fn execute(
        &mut self,
        prepared: Prepared,
        params: &Params,
        rows: Option<&mut Rows>,
    ) -> Result<Done, Error> {
        // Values and results as text, as libpq does by default: the server then works as it does
        // for the clients which published numbers come from. But libpq also has every result
        // described again, which drivers that keep a statement's description do not.
        frontend::bind(
            "",
            &self.names[prepared.0],
            [],
            params.iter(),
            |value, out| {
                value.with_text(|text| out.put_slice(text));
                Ok(IsNull::No)
            },
            [],
            &mut self.out,
        )
        .map_err(|_| not_encoded(std::io::Error::other("a message is too long")))?;
        frontend::execute("", 0, &mut self.out).map_err(not_encoded)?;
        frontend::sync(&mut self.out);
        self.round_trip(rows)
    }

    fn query(&mut self, sql: &[u8], rows: Option<&mut Rows>) -> Result<Done, Error> {
        let sql = std::str::from_utf8(sql).map_err(|error| Error::Connection(error.into()))?;
        frontend::query(sql, &mut self.out).map_err(not_encoded)?;
        self.round_trip(rows)
    }

    fn bulk(&mut self, sql: &str, fill: &mut dyn FnMut(&mut Vec<u8>)) -> Result<Done, Error> {
        frontend::query(sql, &mut self.out).map_err(not_encoded)?;
        self.stream.write_all(&self.out).map_err(|error| Error::Connection(error.into()))?;
        self.out.clear();
        loop {
            let frame = self.frame().map_err(Error::Connection)?;
            match frame[0] {
                backend::COPY_IN_RESPONSE_TAG => break,
                // The server is not in COPY mode and says so; it will be ready next.
                backend::ERROR_RESPONSE_TAG => {
                    let error = server_error(&frame);
                    self.read_result(None)?;
                    return Err(error);
                }
                _ => {}
            }
        }
        let mut piece = Vec::new();
        loop {
            piece.clear();
            fill(&mut piece);
            if piece.is_empty() {
                break;
            }
            CopyData::new(piece.as_slice()).map_err(not_encoded)?.write(&mut self.out);
            // A server that has refused a piece reads on to the end, and its reason comes then; one
            // that has gone shows in the round trip below.
            if self.stream.write_all(&self.out).is_err() {
                break;
            }
            self.out.clear();
        }
        self.out.clear();
        frontend::copy_done(&mut self.out);
        self.round_trip(None)
    }

    fn in_transaction(&self) -> bool {
        self.status != IDLE
    }

    fn process(&self) -> Option<u32> {
        // By the protocol this number is for cancelling; every release has put its process id in.
        u32::try_from(self.process_id).ok().filter(|id| *id > 0)
    }

    fn canceller(&self) -> anyhow::Result<Box<dyn Cancel>> {
        Ok(Box::new(PostgresCancel {
            stream: self.stream.try_clone().context("cannot share a connection")?,
            socket: self.socket.clone(),
            process_id: self.process_id,
            secret_key: self.secret_key,
        }))
    }
}

impl Drop for Postgres {
    /// Says good-bye, or the server logs a lost client. Nobody is left to tell when that fails.
    fn drop(&mut self) {
        self.out.clear();
        frontend::terminate(&mut self.out);
        let _ = self.stream.write_all(&self.out);
    }
}

struct PostgresCancel {
    stream: UnixStream,
    socket: String,
    process_id: i32,
    secret_key: i32,
}

impl Cancel for PostgresCancel {
    fn cancel(&self) -> anyhow::Result<()> {
        let mut out = BytesMut::new();
        frontend::cancel_request(self.process_id, self.secret_key, &mut out);
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.write_all(&out)?;
        Ok(())
    }

    fn hang_up(&self) {
        // It may be closed already, which is what is wanted.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn not_encoded(error: std::io::Error) -> Error {
    Error::Connection(anyhow!(error).context("cannot encode a statement"))
}

/// Takes one whole message apart.
fn parse(frame: &[u8]) -> anyhow::Result<Message> {
    Message::parse(&mut BytesMut::from(frame))?.context("the server sent half a message")
}

fn row(frame: &[u8]) -> anyhow::Result<Vec<Option<String>>> {
    let Message::DataRow(row) = parse(frame)? else { bail!("the server sent no row") };
    let value =
        |range: std::ops::Range<usize>| String::from_utf8_lossy(&row.buffer()[range]).into_owned();
    Ok(row.ranges().map(|range| Ok(range.map(value))).collect()?)
}

/// The number at the end of a command tag: `UPDATE 1`, `INSERT 0 1`, `SELECT 100`; 0 without one.
fn affected(frame: &[u8]) -> u64 {
    let tag = frame[5..].strip_suffix(b"\0").unwrap_or_default();
    let digits = tag.iter().rposition(|b| !b.is_ascii_digit()).map_or(0, |at| at + 1);
    tag[digits..].iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

fn server_error(frame: &[u8]) -> Error {
    let fields = || -> anyhow::Result<Error> {
        let Message::ErrorResponse(body) = parse(frame)? else { bail!("this is no error") };
        let (mut severity, mut sqlstate, mut message) = Default::default();
        let mut fields = body.fields();
        while let Some(field) = fields.next()? {
            let value = String::from_utf8_lossy(field.value_bytes()).into_owned();
            match field.type_() {
                // The severity that is never translated.
                b'V' => severity = value,
                b'C' => sqlstate = value,
                b'M' => message = value,
                _ => {}
            }
        }
        let fatal = severity == "FATAL" || severity == "PANIC";
        let message = format!("{severity}: {message}");
        Ok(Error::Server { sqlstate, number: None, message, fatal })
    };
    fields().unwrap_or_else(Error::Connection)
}

#[cfg(test)]
mod tests;
