//! Named windows: one window for the whole app, written by queries and read by queries.
//!
//! A named window emits into a junction of its own, so that whatever reads a stream reads it in the
//! same way: queries, sides of joins, patterns, partitions ([`Plan::junction_of`]). Joins also look
//! into what the window holds.
//!
//! What its `output` does not name never leaves it, and a RESET never does (Siddhi's
//! `Window.StreamPublishProcessor`). A chunk that the window refuses is the writer's failure, and
//! settled where the writer's own failures are; one that a reader fails on goes to the log.

use event::Batch;
use event::codec::{Error as StateError, Writer as StateWriter};
use lang::ast::{EventType, JoinTrigger};
use plan::{From, Handler, Plan, WindowId};

use crate::component::{AppEnvironment, Key};
use crate::emission::without_resets;
use crate::error::Error;
use crate::hash_order::hash_order;
use crate::kept::{Held, Queue};
use crate::query::{Chain, Place, Used};
use crate::snapshot_format::{self as format, Extent, Fields, Id, List};
use crate::step::{Broken, Step, WindowContents};
use crate::table::ConditionContext;
use crate::timers::{Owner, Timers};

/// The one key of a named window: it is shared by all keys of a partition.
pub(crate) const SHARED: Key = 0;

pub(crate) struct NamedWindow {
    pub name: String,
    /// The window and nothing else.
    pub chain: Chain,
    output: EventType,
    /// Something may have changed since it was saved.
    is_dirty: bool,
}

/// Named windows in the order of the text.
pub(crate) struct NamedWindows {
    all: Vec<NamedWindow>,
    /// The order in which Siddhi makes and starts them: that of a hash map of their names.
    start_order: Vec<WindowId>,
}

impl NamedWindows {
    pub fn new(
        plan: &Plan,
        environment: &AppEnvironment,
        timers: &mut Timers,
        context: &mut ConditionContext<'_>,
    ) -> Result<NamedWindows, Error> {
        let names = plan.windows.iter().map(|w| w.schema.name.as_str());
        let start_order = hash_order(names, plan.windows.len());
        // Timers of one instant fire in playback in the order of definition.
        let mut made = Vec::with_capacity(plan.windows.len());
        for &id in &start_order {
            let window = NamedWindow::new(plan, id, environment, timers, context)?;
            made.push((id, window));
        }
        made.sort_by_key(|(id, _)| *id);
        Ok(NamedWindows {
            all: made.into_iter().map(|(_, window)| window).collect(),
            start_order,
        })
    }

    pub fn get(&self, window: WindowId) -> &NamedWindow {
        &self.all[window]
    }

    pub fn get_mut(&mut self, window: WindowId) -> &mut NamedWindow {
        &mut self.all[window]
    }

    pub fn iter(&self) -> impl Iterator<Item = &NamedWindow> {
        self.all.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut NamedWindow> {
        self.all.iter_mut()
    }

    /// Begins the state of some windows.
    pub fn start(&mut self, which: &[WindowId], step: &mut Step<'_>) {
        for &window in self.start_order.iter().filter(|w| which.contains(w)) {
            let window = &mut self.all[window];
            window.is_dirty = true;
            window.chain.start(SHARED, step);
        }
    }
}

impl WindowContents for NamedWindows {
    fn content(&self, window: WindowId) -> Option<Held<'_>> {
        self.all[window].content()
    }
}

impl NamedWindow {
    fn new(
        plan: &Plan,
        id: WindowId,
        environment: &AppEnvironment,
        timers: &mut Timers,
        context: &mut ConditionContext<'_>,
    ) -> Result<NamedWindow, Error> {
        let window = &plan.windows[id];
        let single = plan::Single {
            from: From::Window(id),
            handlers: vec![Handler::Window(window.window.clone())],
            schema: window.schema.clone(),
        };
        let place = Place {
            owner: Owner::Named { window: id },
            expired_wanted: window.output != EventType::Current,
            // A window that refuses to be searched may stand where it alone triggers.
            is_searched: match window.window.name.as_str() {
                "cron" => is_probed(plan, id),
                _ => is_joined(plan, id),
            },
            is_joined: false,
            is_partitioned: false,
            environment,
        };
        let all = Used::all(window.schema.attributes.len());
        let (chain, _) = Chain::new(&single, 0, &all, place, timers, context)?;
        Ok(NamedWindow {
            name: window.schema.name.clone(),
            is_dirty: true,
            chain,
            output: window.output,
        })
    }

    /// What joins and on-demand queries find; `None` where the window keeps nothing for them.
    pub fn content(&self) -> Option<Held<'_>> {
        self.chain.content(SHARED)
    }

    /// It may refuse a chunk.
    pub fn is_fallible(&self) -> bool {
        let operator = self.chain.operator();
        self.chain.is_late_fallible() || operator.is_some_and(|(_, w, _)| !w.needed().is_empty())
    }

    pub fn held(&self) -> usize {
        self.chain.operator().map_or(0, |(_, w, _)| w.held(SHARED))
    }

    pub fn bytes(&self) -> usize {
        self.chain.operator().map_or(0, |(_, w, _)| w.bytes(SHARED))
    }

    /// Has something changed since it was saved?
    pub fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    pub fn mark_saved(&mut self) {
        self.is_dirty = false;
        let window = self.chain.operator_mut();
        if let Some(queue) = window.and_then(|window| window.queue_mut(SHARED)) {
            queue.mark_saved();
        }
    }

    pub fn save(&self, writer: &mut StateWriter, extent: Extent) {
        let operator = self.chain.operator();
        format::blob(writer, |w| {
            if let Some((name, window, _)) = operator {
                w.str(name);
                window.save(SHARED, w);
            }
        });
        let mut list = List::new(writer, extent);
        match operator.and_then(|(_, window, _)| window.queue(SHARED)) {
            Some(queue) => queue.save_segments(&mut list, extent, Id::from),
            None => list.gone(0..Id::MAX),
        }
        list.end();
    }

    pub fn restore(&mut self, fields: &mut Fields<'_>) -> Result<(), StateError> {
        let reader = &mut fields.blob()?;
        let own = self.chain.operator().map_or("", |(name, ..)| name);
        let name = reader.str()?;
        if name != own {
            return Err(StateError::Mismatch(format!(
                "window '{name}', expected '{own}'"
            )));
        }
        let Some(window) = self.chain.operator_mut() else {
            return Ok(());
        };
        window.restore(SHARED, reader)?;
        let mut segments = fields.list()?;
        while let Some((_, mut segment)) = segments.next()? {
            let queue = window.queue_mut(SHARED);
            let queue = queue.ok_or_else(|| StateError::Mismatch("rows of no window".into()))?;
            queue.take_back(&mut segment)?;
        }
        window.queue_mut(SHARED).map_or(Ok(()), Queue::be_whole)
    }

    pub fn remove(&mut self, timers: &mut Timers) {
        self.is_dirty = true;
        self.chain.remove(SHARED, timers);
    }

    pub fn process(&mut self, batch: Batch, step: &mut Step<'_>) -> Result<Option<Batch>, Broken> {
        self.is_dirty = true;
        let rows = self.chain.process(batch, SHARED, step)?;
        Ok(rows.and_then(|rows| self.published(rows)))
    }

    pub fn on_timer(
        &mut self,
        deadline: i64,
        step: &mut Step<'_>,
    ) -> Result<Option<Batch>, Broken> {
        self.is_dirty = true;
        let rows = self.chain.on_timer(SHARED, deadline, step)?;
        Ok(rows.and_then(|rows| self.published(rows)))
    }

    /// The rows that `output` names.
    fn published(&self, rows: Batch) -> Option<Batch> {
        let rows = without_resets(rows)?;
        let wanted = match self.output {
            EventType::All => return Some(rows),
            EventType::Current => false,
            EventType::Expired => true,
        };
        match &rows.expired {
            None => (!wanted).then_some(rows),
            Some(expired) => {
                let keep: Vec<bool> = expired.iter().map(|&e| e == wanted).collect();
                rows.filter(&keep)
            }
        }
    }
}

/// Is the window a side of a join? Only then do some windows keep what can be found (Siddhi's
/// `SiddhiAppParser` looks for it before it makes them).
fn is_joined(plan: &Plan, window: WindowId) -> bool {
    plan.queries.iter().any(|query| match &query.input {
        plan::Input::Join(join) => {
            [join.left.from, join.right.from].contains(&From::Window(window))
        }
        plan::Input::Single(_) | plan::Input::Pattern(_) => false,
    })
}

/// Does the other side of a join look into the window?
fn is_probed(plan: &Plan, window: WindowId) -> bool {
    let is_stream = |from: From| matches!(from, From::Stream(_) | From::Window(_));
    plan.queries.iter().any(|query| match &query.input {
        plan::Input::Join(join) => {
            let (left, right) = (join.left.from, join.right.from);
            let this = From::Window(window);
            left == this && join.trigger != JoinTrigger::Left && is_stream(right)
                || right == this && join.trigger != JoinTrigger::Right && is_stream(left)
        }
        plan::Input::Single(_) | plan::Input::Pattern(_) => false,
    })
}
