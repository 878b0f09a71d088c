//! The protocol of MySQL and MariaDB over a Unix socket, blocking: one write and (for small
//! results) one read per statement. Rows are counted in place; their values are taken apart only
//! when somebody keeps them.
//!
//! Written here rather than taken from a crate: see the dependency `sha1` of the workspace.
//!
//! Source: MySQL source documentation, "Client/Server Protocol", sections "Connection Lifecycle",
//! "Text Protocol" and "Prepared Statements".

mod auth;
mod packets;
mod wire;

use std::io::Write as _;
use std::net::Shutdown;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use catalog::protocol::Server;

use self::auth::Method;
use self::packets::{HEADER, Packets};
use self::wire::{Column, capability};
use super::{Cancel, Connection, Done, Error, Prepared, Rows};
use crate::params::Params;

/// Where the server's own clients look for a password, too: so it stands in no job.
const PASSWORD: &str = "MYSQL_PWD";

const COM_QUIT: u8 = 0x01;
const COM_QUERY: u8 = 0x03;
const COM_STMT_PREPARE: u8 = 0x16;

/// How long a server may take to end a statement: one that does not answer must not keep the driver
/// from closing its connections.
const PATIENCE: Duration = Duration::from_secs(1);

/// The user is not let in, by password or otherwise.
const ACCESS_DENIED: [u16; 2] = [1045, 1698];
/// There is no such connection.
const UNKNOWN_THREAD: u16 = 1094;
/// The statement is none of those that can be prepared: BEGIN before MariaDB 10.6, and in MySQL.
const CANNOT_BE_PREPARED: u16 = 1295;

/// What a server must have: MySQL 5.5 has all of it.
const NEEDED: u32 =
    capability::PROTOCOL_41 | capability::SECURE_CONNECTION | capability::PLUGIN_AUTH;
/// What is used where both sides have it. MariaDB's own capabilities are not: with them it would
/// leave out the descriptions of columns that MySQL sends with every result, and the numbers of
/// the two could not be compared.
const WANTED: u32 = NEEDED
    | capability::FOUND_ROWS
    | capability::LONG_FLAG
    | capability::CONNECT_WITH_DB
    | capability::TRANSACTIONS
    | capability::DEPRECATE_EOF;

/// A connection with a server of the MySQL family.
pub struct Mysql {
    stream: UnixStream,
    /// How the server is reached, for cancelling.
    server: Server,
    packets: Packets,
    out: Vec<u8>,
    statements: Vec<Statement>,
    /// What both sides can.
    capabilities: u32,
    status: u16,
    /// The server's number for this connection.
    thread: u32,
}

enum Statement {
    Prepared {
        id: u32,
        params: u16,
        /// Whether the server has the types of the values.
        typed: bool,
    },
    /// The server prepares no such statement: it is sent as text each time, as sysbench does.
    Text(String),
}

/// The form in which rows come.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Binary,
}

impl Mysql {
    /// Connects, with the password of the environment if the server wants one.
    pub fn connect(server: &Server) -> anyhow::Result<Self> {
        Self::connect_within(server, None)
    }

    /// The same, and from then on no answer may take longer than `patience`.
    fn connect_within(server: &Server, patience: Option<Duration>) -> anyhow::Result<Self> {
        let socket = &server.socket;
        let stream = UnixStream::connect(socket)
            .with_context(|| format!("cannot connect to the server at `{socket}`"))?;
        stream.set_read_timeout(patience)?;
        let mut connection = Self::over(stream, server);
        let password = std::env::var_os(PASSWORD).unwrap_or_default();
        connection
            .start(password.as_encoded_bytes())
            .with_context(|| format!("cannot start a connection with the server at `{socket}`"))?;
        Ok(connection)
    }

    fn over(stream: UnixStream, server: &Server) -> Self {
        Self {
            stream,
            server: server.clone(),
            packets: Packets::default(),
            out: Vec::new(),
            statements: Vec::new(),
            capabilities: 0,
            status: 0,
            thread: 0,
        }
    }

    fn start(&mut self, password: &[u8]) -> anyhow::Result<()> {
        let user = self.server.user.clone();
        let greeting = wire::greeting(self.payload()?)?;
        let missing = NEEDED & !greeting.capabilities;
        ensure!(missing == 0, "it lacks what this driver needs (capabilities {missing:#x})");
        self.capabilities = WANTED & greeting.capabilities;
        self.thread = greeting.thread;
        // One that is not known here is not answered yet: the server asks for what the user has.
        let mut method = Method::find(&greeting.method).unwrap_or(Method::Native);
        self.out.resize(HEADER, 0);
        wire::push_login(
            self.capabilities,
            &self.server.user,
            &self.server.database,
            (method.name(), &method.answer(password, &greeting.nonce)),
            &mut self.out,
        );
        self.send()?;
        loop {
            let payload = self.payload().map_err(|error| denied(error, &user))?;
            match *payload {
                [wire::OK, ..] => {
                    self.status = wire::success(payload)?.status;
                    return Ok(());
                }
                [wire::EOF] => bail!(unknown("mysql_old_password", &user)),
                [wire::EOF, ref rest @ ..] => {
                    let mut reader = wire::Reader(rest);
                    let name = String::from_utf8_lossy(reader.terminated()?).into_owned();
                    let nonce = wire::without_zero(reader.0).to_vec();
                    method = Method::find(&name).with_context(|| unknown(&name, &user))?;
                    self.answer(&method.answer(password, &nonce))?;
                }
                // It knows the answer already, and says so once more.
                [wire::MORE_DATA, 3] if method == Method::CachingSha2 => {}
                // It does not, and wants the password itself. Nobody else reads on a Unix socket.
                [wire::MORE_DATA, 4] if method == Method::CachingSha2 => {
                    self.answer(&[password, &[0]].concat())?;
                }
                _ => bail!("the server sent what has no place in an authentication"),
            }
        }
    }

    /// Sends one payload of an authentication.
    fn answer(&mut self, payload: &[u8]) -> anyhow::Result<()> {
        self.out.clear();
        self.out.resize(HEADER, 0);
        self.out.extend_from_slice(payload);
        self.send()
    }

    /// Sends the payload in `out` as the next packet of the exchange.
    fn send(&mut self) -> anyhow::Result<()> {
        self.packets.seal(&mut self.out);
        self.stream
            .write_all(&self.out)
            .context("the connection to the server was lost while sending")
    }

    /// Waits for the next payload.
    #[inline]
    fn wait(&mut self) -> Result<Range<usize>, Error> {
        loop {
            if let Some(range) = self.packets.next().map_err(Error::Connection)? {
                return Ok(range);
            }
            self.packets.fill(&mut self.stream).map_err(Error::Connection)?;
        }
    }

    /// The next payload, unless it says that something failed.
    #[inline]
    fn payload(&mut self) -> Result<&[u8], Error> {
        let range = self.wait()?;
        let payload = self.packets.payload(range);
        match payload.first() {
            Some(&wire::ERROR) => Err(wire::failure(payload)),
            Some(_) => Ok(payload),
            None => Err(Error::Connection(anyhow!("the server sent an empty payload"))),
        }
    }

    /// Sends the command in `out` and reads its answer with `read`.
    fn round_trip<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.packets.restart();
        let sent = self.send();
        // A server that ends says why before it closes: that is read also when nothing can be sent.
        match (read(self), sent) {
            (Err(Error::Connection(_)), Err(error)) => Err(Error::Connection(error)),
            (result, _) => result,
        }
    }

    fn read_result(&mut self, form: Form, mut rows: Option<&mut Rows>) -> Result<Done, Error> {
        let mut done = Done::default();
        loop {
            let payload = self.payload()?;
            if payload[0] == wire::OK {
                let success = wire::success(payload).map_err(Error::Connection)?;
                self.status = success.status;
                done.affected += success.affected;
            } else {
                let columns = wire::columns(payload).map_err(Error::Connection)?;
                self.read_rows(form, columns, rows.as_deref_mut(), &mut done)?;
            }
            if self.status & wire::MORE_RESULTS == 0 {
                return Ok(done);
            }
        }
    }

    fn read_rows(
        &mut self,
        form: Form,
        columns: usize,
        mut rows: Option<&mut Rows>,
        done: &mut Done,
    ) -> Result<(), Error> {
        let columns = self.read_columns(columns, rows.is_some())?;
        let deprecates_eof = self.deprecates_eof();
        loop {
            let payload = self.payload()?;
            let end = wire::end(payload, deprecates_eof).map_err(Error::Connection)?;
            if let Some(status) = end {
                self.status = status;
                return Ok(());
            }
            done.rows += 1;
            if let Some(rows) = &mut rows {
                let row = match form {
                    Form::Text => wire::text_row(payload, &columns),
                    Form::Binary => wire::binary_row(payload, &columns),
                };
                rows.push(row.map_err(Error::Connection)?);
            }
        }
    }

    /// Reads the descriptions of columns or values and what ends them; gives them when they are
    /// kept.
    fn read_columns(&mut self, count: usize, keep: bool) -> Result<Vec<Column>, Error> {
        let mut columns = Vec::new();
        for _ in 0..count {
            let payload = self.payload()?;
            if keep {
                columns.push(wire::column(payload).map_err(Error::Connection)?);
            }
        }
        if count > 0 && !self.deprecates_eof() {
            let payload = self.payload()?;
            if payload[0] != wire::EOF {
                return Err(Error::Connection(anyhow!("the server did not end its columns")));
            }
        }
        Ok(columns)
    }

    fn deprecates_eof(&self) -> bool {
        self.capabilities & capability::DEPRECATE_EOF != 0
    }
}

impl Connection for Mysql {
    fn prepare(&mut self, sql: &str) -> Result<Prepared, Error> {
        wire::begin(COM_STMT_PREPARE, &mut self.out);
        self.out.extend_from_slice(sql.as_bytes());
        let prepared = self.round_trip(|connection| {
            let described = wire::description(connection.payload()?).map_err(Error::Connection)?;
            connection.read_columns(described.params.into(), false)?;
            connection.read_columns(described.columns.into(), false)?;
            Ok(described)
        });
        self.statements.push(match prepared {
            Ok(wire::Description { id, params, .. }) => {
                Statement::Prepared { id, params, typed: false }
            }
            // Without values the text is the statement.
            Err(Error::Server { number: Some(CANNOT_BE_PREPARED), .. }) if !sql.contains('?') => {
                Statement::Text(sql.to_owned())
            }
            Err(error) => return Err(error),
        });
        Ok(Prepared(self.statements.len() - 1))
    }

    fn execute(
        &mut self,
        prepared: Prepared,
        params: &Params,
        rows: Option<&mut Rows>,
    ) -> Result<Done, Error> {
        let form = match &self.statements[prepared.0] {
            Statement::Text(sql) => {
                wire::begin(COM_QUERY, &mut self.out);
                self.out.extend_from_slice(sql.as_bytes());
                Form::Text
            }
            Statement::Prepared { id, params: wanted, typed } => {
                let given = params.len();
                if given != usize::from(*wanted) {
                    let wrong =
                        anyhow!("the statement takes {wanted} values, it was given {given}");
                    return Err(Error::Connection(wrong));
                }
                wire::begin_execute(*id, params, !typed, &mut self.out);
                Form::Binary
            }
        };
        let done = self.round_trip(|connection| connection.read_result(form, rows))?;
        if let Statement::Prepared { typed, .. } = &mut self.statements[prepared.0] {
            *typed = true;
        }
        Ok(done)
    }

    fn query(&mut self, sql: &[u8], rows: Option<&mut Rows>) -> Result<Done, Error> {
        wire::begin(COM_QUERY, &mut self.out);
        self.out.extend_from_slice(sql);
        self.round_trip(|connection| connection.read_result(Form::Text, rows))
    }

    fn bulk(&mut self, sql: &str, fill: &mut dyn FnMut(&mut Vec<u8>)) -> Result<Done, Error> {
        let mut piece = Vec::new();
        let mut all = Done::default();
        loop {
            piece.clear();
            fill(&mut piece);
            if piece.is_empty() {
                return Ok(all);
            }
            wire::begin(COM_QUERY, &mut self.out);
            self.out.extend_from_slice(sql.as_bytes());
            self.out.extend_from_slice(&piece);
            let done = self.round_trip(|connection| connection.read_result(Form::Text, None))?;
            all.affected += done.affected;
        }
    }

    /// A refusal does not tell: what was true before it stays, and one ROLLBACK too many is none.
    fn in_transaction(&self) -> bool {
        self.status & wire::IN_TRANSACTION != 0
    }

    fn canceller(&self) -> anyhow::Result<Box<dyn Cancel>> {
        Ok(Box::new(MysqlCancel {
            stream: self.stream.try_clone().context("cannot share a connection")?,
            server: self.server.clone(),
            thread: self.thread,
        }))
    }
}

impl Drop for Mysql {
    /// Says good-bye, or the server logs a lost client; its statements end with it. Nobody is left
    /// to tell when that fails.
    fn drop(&mut self) {
        wire::begin(COM_QUIT, &mut self.out);
        self.packets.restart();
        let _ = self.send();
    }
}

struct MysqlCancel {
    stream: UnixStream,
    server: Server,
    thread: u32,
}

impl Cancel for MysqlCancel {
    fn cancel(&self) -> anyhow::Result<()> {
        let kill = format!("KILL QUERY {}", self.thread);
        let mut connection = Mysql::connect_within(&self.server, Some(PATIENCE))?;
        match connection.query(kill.as_bytes(), None) {
            // The connection ended meanwhile, and its statement with it.
            Err(Error::Server { number: Some(UNKNOWN_THREAD), .. }) => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }

    fn hang_up(&self) {
        // It may be closed already, which is what is wanted.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn denied(error: Error, user: &str) -> anyhow::Error {
    let denied =
        matches!(&error, Error::Server { number: Some(n), .. } if ACCESS_DENIED.contains(n));
    let error = anyhow!(error);
    if !denied {
        return error;
    }
    error.context(format!(
        "`{user}` must be let in without a password, or with the one in the environment variable \
         `{PASSWORD}`"
    ))
}

fn unknown(method: &str, user: &str) -> String {
    format!(
        "it asks `{user}` for the authentication `{method}`, which this driver does not have; it \
         has `{}` and `{}`, both also without a password",
        Method::Native.name(),
        Method::CachingSha2.name()
    )
}

#[cfg(test)]
mod tests;
