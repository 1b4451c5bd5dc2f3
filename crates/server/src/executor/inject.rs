//! Takes rows that were sent by hand, and the wish for a checkpoint.

use std::time::Duration;

use engine::Input;

use super::{Executor, HeldAnswer, Injection};

impl Executor {
    /// Makes a checkpoint whether anything has happened or not.
    pub(super) fn take_save(&mut self, reply: HeldAnswer) {
        self.checkpointer.is_dirty = true;
        self.checkpointer.is_requested = true;
        self.asked.unsaved.push(reply);
    }

    /// As the rows of a source; who sent them is told when the app has them, and when they are saved
    /// if there is a state directory.
    pub(super) fn take_injection(&mut self, injection: Injection) -> Result<(), String> {
        self.checkpointer.is_dirty = true;
        self.waited = Duration::ZERO;
        self.step(
            injection.app,
            Input::Batch(injection.stream, injection.batch),
        )?;
        if self.checkpointer.state.is_some() {
            self.checkpointer.is_requested = true;
            self.asked.unsaved.push(HeldAnswer::Sent(injection.reply));
        } else {
            // Who does not wait any more needs no answer.
            injection.reply.send(()).ok();
        }
        Ok(())
    }
}
