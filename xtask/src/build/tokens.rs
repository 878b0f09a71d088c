//! One pool of job tokens for all builds: GNU make's jobserver, which each make takes tokens from.
//!
//! A step that is not make, and the first job of every make, need a token, too; they are taken here
//! before the step starts, so that never more than N jobs run, whatever the builds are doing.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::interrupt;

/// How long the pool must be empty with nobody working before its tokens count as lost.
const LOST_AFTER: Duration = Duration::from_millis(500);

/// The pool.
#[derive(Debug)]
pub struct Tokens {
    client: jobserver::Client,
    /// Waits for tokens on behalf of all builds: a thread that waited in the kernel by itself could
    /// not notice Ctrl-C.
    helper: jobserver::HelperThread,
    arrived: Mutex<Receiver<std::io::Result<jobserver::Acquired>>>,
    /// How many steps hold a token.
    running: Mutex<usize>,
}

/// The right to run one job; given back when dropped.
#[derive(Debug)]
pub struct Token<'a> {
    pool: &'a Tokens,
    token: Option<jobserver::Acquired>,
}

impl Tokens {
    /// A pool of `jobs` tokens.
    ///
    /// # Errors
    /// When the kernel refuses a pipe or a thread.
    pub fn new(jobs: usize) -> anyhow::Result<Self> {
        let client = jobserver::Client::new(jobs.max(1)).context("cannot make the job tokens")?;
        let (send, receive) = channel();
        let helper = client
            .clone()
            // Nobody listens any more only when the pool is being dropped.
            .into_helper_thread(move |token| drop(send.send(token)))
            .context("cannot make the thread for job tokens")?;
        Ok(Self { client, helper, arrived: Mutex::new(receive), running: Mutex::default() })
    }

    /// For [`crate::proc::Proc::jobserver`].
    pub fn client(&self) -> &jobserver::Client {
        &self.client
    }

    /// Waits for a token.
    ///
    /// # Errors
    /// When the user asks to stop, or the pool is broken.
    pub fn acquire(&self) -> anyhow::Result<Token<'_>> {
        self.helper.request_token();
        let mut idle_since = Instant::now();
        loop {
            interrupt::check()?;
            let arrived = lock(&self.arrived).try_recv();
            match arrived {
                Ok(token) => {
                    let token = token.context("cannot take a job token")?;
                    *lock(&self.running) += 1;
                    return Ok(Token { pool: self, token: Some(token) });
                }
                Err(TryRecvError::Disconnected) => bail!("the thread for job tokens has ended"),
                Err(TryRecvError::Empty) => {}
            }
            if *lock(&self.running) > 0 {
                idle_since = Instant::now();
            } else if idle_since.elapsed() > LOST_AFTER {
                // A make was killed and took its tokens along.
                self.client.release_raw().context("cannot refill the job tokens")?;
                idle_since = Instant::now();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Token<'_> {
    fn drop(&mut self) {
        self.token = None;
        *lock(&self.pool.running) -= 1;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn lost_tokens_come_back() {
        let tokens = Tokens::new(1).expect("a pool");
        // A make that was killed while it held the only token.
        tokens.client.acquire_raw().expect("the only token");
        drop(tokens.acquire().expect("it comes back"));
        drop(tokens.acquire().expect("and again"));
    }

    #[test]
    fn never_more_than_the_limit() {
        let tokens = Tokens::new(2).expect("a pool");
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    let token = tokens.acquire().expect("a token");
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(10));
                    now.fetch_sub(1, Ordering::SeqCst);
                    drop(token);
                });
            }
        });
        assert_eq!(most.into_inner(), 2);
    }
}
