//! Answers on-demand queries between two steps.

use std::sync::Arc;
use std::time::Instant;

use engine::{HostError, WriteCounts};
use plan::From;
use plan::store::{Operation, OperationId};

use super::apart::{ApartQuestion, bounded};
use super::{Executor, HeldAnswer, Question, Reply};
use crate::report::chain;
use crate::store::Database;

/// Numbers of operations that on-demand queries bring, behind those of the apps.
#[derive(Default)]
pub(crate) struct AskedOperations {
    /// The first of them.
    pub first: OperationId,
    used: usize,
    free: Vec<OperationId>,
    /// Given back, but a write with it may have to be done again until the next commit.
    spent: Vec<OperationId>,
    /// In use, with their databases and slots there.
    live: Vec<(OperationId, usize, usize)>,
    /// Writes that are done and not saved yet.
    pub unsaved: Vec<HeldAnswer>,
}

impl AskedOperations {
    pub fn new(first: OperationId) -> AskedOperations {
        AskedOperations {
            first,
            ..AskedOperations::default()
        }
    }

    /// Compiles an operation on a table of a database of this executor.
    pub fn prepare(
        &mut self,
        operation: &Operation,
        (database, slot): (usize, usize),
        databases: &mut [Database],
    ) -> Result<OperationId, HostError> {
        if !databases.iter().any(Database::is_in_transaction) {
            self.free.append(&mut self.spent);
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.used += 1;
            self.first + self.used - 1
        });
        let binding = &mut databases[database].bindings[slot];
        if let Err(error) = binding.store.prepare(number, operation) {
            self.free.push(number);
            return Err(HostError {
                row: 0,
                message: chain(&error),
            });
        }
        binding.operations.push((number, operation.clone()));
        self.live.push((number, database, slot));
        Ok(number)
    }

    pub fn place(&self, number: OperationId) -> Option<(usize, usize)> {
        let live = self.live.iter().find(|(n, ..)| *n == number);
        live.map(|(_, database, slot)| (*database, *slot))
    }

    pub fn release(&mut self, number: OperationId) {
        self.live.retain(|(n, ..)| *n != number);
        self.spent.push(number);
    }

    /// Forgets operations whose writes are committed.
    pub fn sweep(&mut self, databases: &mut [Database]) {
        if self.spent.is_empty() || databases.iter().any(Database::is_in_transaction) {
            return;
        }
        for binding in databases.iter_mut().flat_map(|d| &mut d.bindings) {
            binding.operations.retain(|(n, _)| !self.spent.contains(n));
        }
        self.free.append(&mut self.spent);
    }
}

impl Executor {
    /// A question that is answered beside this thread; `None`: it is answered here.
    fn apart(&mut self, question: &Question, wall: i64) -> Option<ApartQuestion> {
        let app = &self.apps[question.app];
        let find = engine::asks_store(&app.plan, &question.query)?;
        let From::Table(table) = find.from else {
            return None;
        };
        let (database, slot) = app.table_bindings.get(table).copied().flatten()?;
        let apart = app.engine.apart(&app.plan, &question.query, wall)?;
        let view = self.databases[database].bindings[slot].store.view()?;
        Some(ApartQuestion {
            apart,
            plan: Arc::clone(&app.plan),
            query: Arc::clone(&question.query),
            view,
        })
    }

    /// Somebody who has gone meanwhile is not answered.
    pub(super) fn answer(&mut self, question: Question) -> Result<(), String> {
        if question.reply.is_closed() {
            return Ok(());
        }
        let wall = self.clock.now();
        if let Some(apart) = self.apart(&question, wall) {
            // Who does not wait any more needs no answer.
            question.reply.send(Reply::Apart(Box::new(apart))).ok();
            return Ok(());
        }
        let mut outputs = std::mem::take(&mut self.outputs);
        self.asked.sweep(&mut self.databases);
        let hosted = self.hosted(question.app, Instant::now());
        let (engine, mut host) = (hosted.engine, hosted.host);
        let answer = engine.ask(hosted.plan, &question.query, wall, &mut host, &mut outputs);
        let failure = host.failure.take();
        self.checkpointer.is_dirty = true;
        let posted = self.post_outputs(question.app, &mut outputs);
        outputs.clear();
        self.outputs = outputs;
        match bounded(answer) {
            // Who is told of a write may rely on it: it is saved first.
            Ok(answer)
                if self.checkpointer.state.is_some()
                    && answer.written != WriteCounts::default() =>
            {
                self.checkpointer.is_requested = true;
                let reply = question.reply;
                self.asked.unsaved.push(HeldAnswer::Asked { reply, answer });
            }
            // Who does not wait any more needs no answer.
            answer => _ = question.reply.send(Reply::Answered(answer)).ok(),
        }
        match failure {
            Some(failure) => Err(failure),
            None => posted,
        }
    }
}
