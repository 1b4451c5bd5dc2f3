//! Triggers: streams of the engine's own making.
//!
//! They follow the wall clock, also in playback, where their events carry the time of the events'
//! clock (Siddhi's `PeriodicTrigger`, `CronTrigger`, `StartTrigger`). A trigger at the start fires
//! when the app first starts; a restored app goes on and does not fire it again.

use event::{Batch, Chunks, Column, Times, Values};
use lang::cron::Cron;
use plan::{Plan, StreamId, TriggerAt};

use crate::app::{App, Outside};
use crate::hash_order::hash_order;
use crate::timers::{OperatorId, Owner, Timers};
use crate::window::first_after;

/// The triggers of an app, in the order of the text.
#[derive(Default)]
pub(crate) struct Triggers {
    all: Vec<Trigger>,
    /// The order in which Siddhi starts them.
    start_order: Vec<usize>,
}

struct Trigger {
    name: String,
    stream: StreamId,
    at: At,
    operator: OperatorId,
}

enum At {
    Start,
    Every(i64),
    Cron(Box<Cron>),
    /// By an expression that cannot be read; the checker has warned.
    Never,
}

impl Triggers {
    pub fn new(plan: &Plan, timers: &mut Timers) -> Triggers {
        let names = plan.triggers.iter().map(|t| t.name.as_str());
        Triggers {
            start_order: hash_order(names, plan.triggers.len()),
            all: plan
                .triggers
                .iter()
                .enumerate()
                .map(|(id, trigger)| Trigger {
                    name: trigger.name.clone(),
                    stream: trigger.stream,
                    at: match &trigger.at {
                        TriggerAt::Start => At::Start,
                        TriggerAt::EveryMillis(every) => At::Every(*every),
                        TriggerAt::Cron(text) => match Cron::parse(text) {
                            Ok(cron) => At::Cron(Box::new(cron)),
                            Err(_) => At::Never,
                        },
                    },
                    operator: timers.add_operator(Owner::Trigger { trigger: id }),
                })
                .collect(),
        }
    }

    pub fn name(&self, trigger: usize) -> &str {
        &self.all[trigger].name
    }
}

impl App {
    /// Sets the first deadlines of triggers that have none, and the first time fires those at the
    /// start.
    pub(crate) fn start_triggers(&mut self, is_first: bool, outside: &mut Outside<'_>) {
        for trigger in self.triggers.start_order.clone() {
            let operator = self.triggers.all[trigger].operator;
            match self.triggers.all[trigger].at {
                At::Start if is_first => self.fire_trigger(trigger, outside),
                At::Start | At::Never => {}
                At::Every(_) | At::Cron(_) => {
                    if !self.core.timers.has_deadline(operator, 0) {
                        self.arm_trigger(trigger, self.core.wall, self.core.wall);
                    }
                }
            }
        }
    }

    /// A deadline of a trigger is due. Those that were missed while the app was down are one.
    pub(crate) fn trigger_timer(
        &mut self,
        trigger: usize,
        deadline: i64,
        now: i64,
        outside: &mut Outside<'_>,
    ) {
        self.arm_trigger(trigger, deadline, now);
        self.fire_trigger(trigger, outside);
    }

    /// The next time of a trigger behind `now`, counted from `after`.
    fn arm_trigger(&mut self, trigger: usize, after: i64, now: i64) {
        let Trigger { at, operator, .. } = &self.triggers.all[trigger];
        let next = match at {
            At::Every(every) => {
                let next = after.checked_add(*every);
                next.map(|next| first_after(now, next, *every))
            }
            At::Cron(cron) => cron.next(after.max(now), &self.core.environment.time_zone()),
            At::Start | At::Never => None,
        };
        if let Some(next) = next {
            self.core.timers.notify(*operator, 0, next, after);
        }
    }

    fn fire_trigger(&mut self, trigger: usize, outside: &mut Outside<'_>) {
        let clock = self.core.clock;
        let column = Column::new(Values::Long(vec![clock]), None);
        let batch = Batch::new(vec![column], 1, Times::Same(clock), Chunks::One, clock);
        let stream = self.triggers.all[trigger].stream;
        self.root(stream, batch, outside);
    }
}
