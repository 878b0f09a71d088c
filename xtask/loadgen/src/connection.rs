//! What the driver needs of a connection; each wire protocol is one implementation.

mod postgres;

use std::fmt;

use catalog::protocol::{Server, WireProtocol};

use crate::params::Params;

/// Rows that were kept for comparison; `None` is NULL.
pub type Rows = Vec<Vec<Option<String>>>;

/// A connection. Every call is one round trip: it returns when the server is ready for the next.
pub trait Connection: Send {
    /// Prepares a statement with the values `$1` ….
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

    /// Sends data to a `COPY … FROM STDIN`: `fill` appends the next piece to an empty buffer, or
    /// nothing when there is no more.
    fn copy_in(&mut self, sql: &str, fill: &mut dyn FnMut(&mut Vec<u8>)) -> Result<Done, Error>;

    /// Whether a transaction is open, also one that has failed.
    fn in_transaction(&self) -> bool;

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
    /// Rows that were selected, changed or copied, by the server's own count.
    pub affected: u64,
}

/// Why a statement failed.
#[derive(Debug)]
pub enum Error {
    /// The server refused it.
    Server {
        /// The five characters of the SQLSTATE.
        sqlstate: String,
        /// Severity and message of the server.
        message: String,
        /// Whether the connection ended with it.
        fatal: bool,
    },
    /// The connection was lost, or what came is not the protocol.
    Connection(anyhow::Error),
}

impl Error {
    /// The SQLSTATE, when this is one of the refusals that a benchmark with several clients must
    /// expect: the event is rolled back and the client goes on.
    pub fn expected(&self) -> Option<&str> {
        const UNIQUE_VIOLATION: &str = "23505";
        const SERIALIZATION_FAILURE: &str = "40001";
        const DEADLOCK: &str = "40P01";
        match self {
            Self::Server { sqlstate, fatal: false, .. } => {
                let expected = [UNIQUE_VIOLATION, SERIALIZATION_FAILURE, DEADLOCK];
                expected.contains(&sqlstate.as_str()).then_some(sqlstate)
            }
            Self::Server { .. } | Self::Connection(_) => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server { sqlstate, message, .. } => {
                write!(f, "the server says: {message} (SQLSTATE {sqlstate})")
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
    }
}
