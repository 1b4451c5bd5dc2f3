//! Functions of apps that reach outside (`#file:move`, `#rdbms:query`, `#s3:copy`): what a technology
//! offers, and what the server must know to call them.
//!
//! Promises: a call runs on the thread that steps the app, and its result is the result of that step. A
//! call that takes something away for good may be put off until the checkpoint that covers it is
//! durable; it is then answered by what will happen.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use event::{Column, Value};

use crate::component::Environment;
use crate::error::Error;
use crate::shared::Shared;

/// The functions of a technology, by their full names.
pub trait EffectFunctions: Sync {
    fn has(&self, name: &str) -> bool;

    /// Does a call change something outside, or wait for it? If not, it does not count as activity.
    fn acts(&self, _name: &str) -> bool {
        true
    }

    /// What calls of one app keep between them (connections, statements).
    fn begin(&self) -> Box<dyn EffectCalls>;

    /// Opens the journal of a group of apps and puts it among what they share. `directory`: where their
    /// state is; `None` without state.
    ///
    /// # Errors
    /// The journal cannot be opened.
    fn journal(
        &self,
        _directory: Option<&Path>,
        _shared: &Shared,
    ) -> Result<Option<Arc<dyn EffectJournal>>, Error> {
        Ok(None)
    }

    /// Reads the journal that lies in a directory and changes nothing: its path and how many calls it has;
    /// `None` if there is none.
    ///
    /// # Errors
    /// The journal cannot be used; the message has the remedy.
    fn verify_journal(&self, _directory: &Path) -> Result<Option<(PathBuf, u64)>, Error> {
        Ok(None)
    }

    /// Makes a call that was put off ([`Call::pending`]), after its checkpoint or after a restart from it.
    ///
    /// # Errors
    /// Why it failed, in words.
    fn act(&self, effect: &PendingEffect, _shared: &Shared) -> Result<(), String> {
        Err(format!("'{}' is never put off", effect.function))
    }
}

/// The calls of one app.
pub trait EffectCalls: Send {
    /// Runs a function for each row of arguments, in order.
    ///
    /// # Errors
    /// The row whose call failed, and the words; the rows after it were not tried.
    fn call(&mut self, call: &mut Call<'_>) -> Result<Called, (usize, String)>;
}

pub struct Call<'a> {
    pub environment: &'a Environment,
    /// The full name (`file:move`).
    pub function: &'a str,
    pub arguments: &'a [Column],
    pub rows: usize,
    /// Takes calls that have to wait for the checkpoint that covers them. `None` without state: all act
    /// at once.
    pub pending: Option<&'a mut Vec<PendingEffect>>,
}

/// What a call adds to its events.
#[derive(Default)]
pub struct Called {
    pub columns: Vec<Column>,
    /// For each row of the result the row of the arguments it comes from; `None`: one each.
    pub origins: Option<Vec<u32>>,
}

/// A call that waits for the checkpoint that covers it.
///
/// With state a file leaves its place only when the step that took it away can no longer be undone: else
/// a restart would have to read a file that is gone. The call is answered at once by what will happen,
/// the snapshot holds it, and doing it twice is doing it once.
#[derive(Clone, PartialEq, Debug)]
pub struct PendingEffect {
    pub app: String,
    pub function: String,
    pub arguments: Vec<Value>,
}

/// What a technology notes durably about its effects, so that each happens once. Methods may be called
/// from any thread.
pub trait EffectJournal: Send + Sync {
    /// The group continues from this checkpoint (0: from the start).
    ///
    /// # Errors
    /// The journal cannot be written.
    fn restored(&self, epoch: u64) -> Result<(), Error>;

    /// The state of the checkpoint `epoch` has been taken: calls from now on are not in it.
    fn barrier(&self, epoch: u64);

    /// The checkpoint `epoch` is durable: what it covers is not asked for again.
    ///
    /// # Errors
    /// The journal cannot be written.
    fn checkpoint(&self, epoch: u64) -> Result<(), Error>;
}
