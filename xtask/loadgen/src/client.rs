//! One client: a connection, its prepared statements and its stream of values.

use std::ops::ControlFlow;

use anyhow::Context as _;
use catalog::protocol::{Data, Server, WireProtocol};
use catalog::{Microbenchmark, Statement, Step};

use crate::connection::{self, Connection, Done, Error, Prepared, Rows};
use crate::draw::Draw;
use crate::params::Params;
use crate::sql::Sql;

/// A client that executes events of one microbenchmark.
pub struct Client {
    /// Its connection, between two events.
    pub connection: Box<dyn Connection>,
    steps: Vec<Planned>,
    draw: Draw,
    params: Params,
    text: Vec<u8>,
    kept: Option<Rows>,
}

/// A statement that was executed.
pub struct Executed<'a> {
    /// Which.
    pub statement: Statement,
    /// Against which table.
    pub table: u32,
    /// With which values.
    pub params: &'a Params,
    /// What it did.
    pub done: Done,
    /// Its rows, when the client keeps them.
    pub rows: &'a [Vec<Option<String>>],
}

/// A step with what to send for each table (from 0).
struct Planned {
    step: Step,
    send: Vec<Send>,
}

enum Send {
    Prepared(Prepared),
    Text(Sql),
}

impl Client {
    /// Connects client number `number` (from 0) and prepares its statements.
    ///
    /// # Errors
    ///
    /// When the server does not let it in or refuses a statement.
    pub fn connect(
        server: &Server,
        data: &Data,
        microbenchmark: &Microbenchmark,
        prepared: bool,
        (seed, number): (u64, u32),
    ) -> anyhow::Result<Self> {
        let mut connection = connection::connect(server)?;
        let prepared = prepared && microbenchmark.prepared;
        let steps = microbenchmark
            .steps
            .iter()
            .map(|step| plan(&mut *connection, server.protocol, step, data.tables, prepared))
            .collect::<anyhow::Result<_>>()?;
        let draw = Draw::new(microbenchmark.distribution, data, seed, number);
        let (params, text) = (Params::default(), Vec::new());
        Ok(Self { connection, steps, draw, params, text, kept: None })
    }

    /// From now on rows are kept until the next statement, for [`Executed::rows`].
    pub fn keep_rows(&mut self) {
        self.kept = Some(Rows::new());
    }

    /// Executes one event. `each` sees every statement after it has ended and may break off.
    ///
    /// # Errors
    ///
    /// The first statement that fails ends the event; a transaction stays open.
    pub fn event(
        &mut self,
        mut each: impl FnMut(&Executed<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Error> {
        for planned in &self.steps {
            let statement = planned.step.statement;
            let table = self.draw.table(statement);
            for _ in 0..planned.step.times {
                self.draw.values(statement, table, &mut self.params);
                if let Some(kept) = &mut self.kept {
                    kept.clear();
                }
                let rows = self.kept.as_mut();
                let done = match &planned.send[table as usize - 1] {
                    Send::Prepared(handle) => {
                        self.connection.execute(*handle, &self.params, rows)?
                    }
                    Send::Text(sql) => {
                        self.text.clear();
                        sql.push_with_values(&self.params, &mut self.text);
                        self.connection.query(&self.text, rows)?
                    }
                };
                let rows = self.kept.as_deref().unwrap_or_default();
                let executed = Executed { statement, table, params: &self.params, done, rows };
                if each(&executed).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Ends a transaction that a failed event has left open.
    ///
    /// # Errors
    ///
    /// When the server refuses even that.
    pub fn roll_back(&mut self) -> Result<(), Error> {
        if self.connection.in_transaction() {
            self.connection.query(b"ROLLBACK", None)?;
        }
        Ok(())
    }
}

fn plan(
    connection: &mut dyn Connection,
    protocol: WireProtocol,
    step: &Step,
    tables: u32,
    prepared: bool,
) -> anyhow::Result<Planned> {
    // These name no table: one will do.
    let tables = match step.statement {
        Statement::Begin | Statement::Commit => 1,
        _ => tables,
    };
    let send = (1..=tables).map(|table| {
        let sql = Sql::new(protocol, step.statement, table);
        if !prepared {
            return Ok(Send::Text(sql));
        }
        let text = sql.to_prepare();
        let handle = connection.prepare(&text).with_context(|| {
            let short: String = text.chars().take(80).collect();
            format!("cannot prepare `{short}` (were the tables loaded?)")
        })?;
        Ok(Send::Prepared(handle))
    });
    Ok(Planned { step: *step, send: send.collect::<anyhow::Result<_>>()? })
}
