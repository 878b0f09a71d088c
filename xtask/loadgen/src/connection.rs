//! What the driver needs of a connection; each wire protocol is one implementation.

mod buffer;
mod mysql;
mod postgres;

use std::fmt;

use catalog::protocol::{Server, WireProtocol};

use crate::params::Params;

/// Rows that were kept for comparison; `None` is NULL.
pub type Rows = Vec<Vec<Option<String>>>;

/// A connection. Every call is one round trip: it returns when the server is ready for the next.
pub trait Connection: Send {
    /// Prepares a statement with marks for its values.
    fn prepare(&mut self, sql: &str) -> Result<Prepared, Error>;

    /// Executes a prepared statement. Rows are counted; they are kept only when `rows` is given.
    fn execute(
        &mut self,
        prepared: Prepared,
        params: &Params,
        rows: Option<&mut Rows>,
    ) -> Result<Done, Error>;

    /// Sends a statement as text. Rows as in [`Connection::execute`].
    fn query(&mut self, sql: &[u8], rows: Option<&mut Rows>) -> Result<Done, Error>;

    /// Sends many rows: `fill` appends the next piece to an empty buffer, or nothing when there is
    /// no more. `sql` is what the pieces belong to: `COPY … FROM STDIN` and its data (Postgres),
    /// `INSERT … VALUES ` and the rows of one statement (MySQL).
    fn bulk(&mut self, sql: &str, fill: &mut dyn FnMut(&mut Vec<u8>)) -> Result<Done, Error>;

    /// Whether a transaction is open, also one that has failed.
    fn in_transaction(&self) -> bool;

    /// The id of the server's process that serves this connection alone, if there is one.
    fn process(&self) -> Option<u32> {
        None
    }

    /// What ends a statement that is running on this connection.
    fn canceller(&self) -> anyhow::Result<Box<dyn Cancel>>;
}

/// Ends a statement from another thread.
pub trait Cancel: Send {
    /// Asks the server to end the statement that is running, which then fails.
    fn cancel(&self) -> anyhow::Result<()>;

    /// Closes the connection under whoever waits for it: the last resort.
    fn hang_up(&self);
}

/// A prepared statement of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared(usize);

/// What a statement did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Rows that came back.
    pub rows: u64,
    /// Rows that were changed or loaded, by the server's own count.
    pub affected: u64,
}

/// Why a statement failed.
#[derive(Debug)]
pub enum Error {
    /// The server refused it.
    Server {
        /// The five characters of the SQLSTATE.
        sqlstate: String,
        /// The server's own number of the error, where its protocol has one (MySQL).
        number: Option<u16>,
        /// Severity and message of the server.
        message: String,
        /// Whether the connection ended with it.
        fatal: bool,
    },
    /// The connection was lost, or what came is not the protocol.
    Connection(anyhow::Error),
}

/// The refusals that a benchmark with several clients must expect, of servers whose errors have no
/// number.
const EXPECTED_SQLSTATES: [&str; 3] = [
    "23505", // unique violation
    "40001", // serialization failure
    "40P01", // deadlock
];

/// The same of servers whose errors have one. Those but for the duplicate, which transactions at
/// READ COMMITTED can meet, are what sysbench goes on after, too.
const EXPECTED_NUMBERS: [u16; 4] = [
    1020, // the record has changed since it was read
    1062, // duplicate key
    1205, // waited too long for a lock
    1213, // deadlock
];

/// The refusals of a transaction that succeeds when it is sent again, by SQLSTATE and by number.
const TRANSIENT_SQLSTATES: [&str; 3] = [
    "40001", // serialization failure
    "40P01", // deadlock
    "55P03", // waited too long for a lock
];
const TRANSIENT_NUMBERS: [u16; 3] = [
    1020, // the record has changed since it was read
    1205, // waited too long for a lock
    1213, // deadlock
];

impl Error {
    /// The number, or the SQLSTATE where there is none, when the same transaction can succeed if it
    /// is sent again.
    pub fn transient(&self) -> Option<String> {
        match self {
            Self::Server { fatal: false, number: Some(number), .. } => {
                TRANSIENT_NUMBERS.contains(number).then(|| number.to_string())
            }
            Self::Server { fatal: false, number: None, sqlstate, .. } => {
                TRANSIENT_SQLSTATES.contains(&sqlstate.as_str()).then(|| sqlstate.clone())
            }
            Self::Server { .. } | Self::Connection(_) => None,
        }
    }

    /// The number, or the SQLSTATE where there is none, when this is one of the refusals that a
    /// benchmark with several clients must expect: the event is rolled back and the client goes on.
    pub fn expected(&self) -> Option<String> {
        match self {
            Self::Server { fatal: false, number: Some(number), .. } => {
                EXPECTED_NUMBERS.contains(number).then(|| number.to_string())
            }
            Self::Server { fatal: false, number: None, sqlstate, .. } => {
                EXPECTED_SQLSTATES.contains(&sqlstate.as_str()).then(|| sqlstate.clone())
            }
            Self::Server { .. } | Self::Connection(_) => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server { sqlstate, number, message, .. } => {
                write!(f, "the server says: {message} (SQLSTATE {sqlstate}")?;
                match number {
                    Some(number) => write!(f, ", error {number})"),
                    None => write!(f, ")"),
                }
            }
            Self::Connection(error) => write!(f, "{error:#}"),
        }
    }
}

impl std::error::Error for Error {}

/// Connects.
///
/// # Errors
///
/// When the socket cannot be reached or the server does not let the user in.
pub fn connect(server: &Server) -> anyhow::Result<Box<dyn Connection>> {
    match server.protocol {
        WireProtocol::Postgres => Ok(Box::new(postgres::Postgres::connect(server)?)),
        WireProtocol::Mysql => Ok(Box::new(mysql::Mysql::connect(server)?)),
    }
}
