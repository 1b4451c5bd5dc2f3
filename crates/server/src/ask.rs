//! On-demand queries to the apps of a running server.
//!
//! A query is parsed and checked on the caller's thread; the app's executor answers it between two
//! steps. Under `--state` a write is answered when it has been saved, for which it waits as sources
//! do. A question about rows of a store that can be read beside the app (the event store) is answered on a
//! thread of the asker: the executor only gives away what the rows are at that moment. Checked queries are
//! cached: the last [`CHECKED_MAX`] texts, as Siddhi keeps them.
//!
//! Never here: HTTP, JSON (see [`crate::http`]).

use std::collections::VecDeque;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use check::Catalog;
use engine::{Answer, AskError};
use lang::diagnostic::{Diagnostic, Kind, Severity};
use plan::{OnDemand, Plan};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::executor::{ApartQuestion, ExecutorInput, HeldAnswer, InputQueue, Question, Reply};
use crate::otlp::{Span, Tracer};

/// Checked queries that are kept.
const CHECKED_MAX: usize = 50;

/// Questions about tables of stores that are answered at once; others wait before their app hears of them.
const STORE_QUESTIONS_MAX: usize = 4;

/// Asks the apps of a server.
#[derive(Clone)]
pub struct Asker(Arc<Inner>);

struct Inner {
    /// Queries are checked by it.
    catalog: Catalog,
    tracer: Option<Tracer>,
    apps: Mutex<Arc<[AskedApp]>>,
    checked: Mutex<VecDeque<Checked>>,
    store_questions: Arc<Semaphore>,
}

#[derive(Clone)]
pub(crate) struct AskedApp {
    pub name: String,
    pub plan: Arc<Plan>,
    pub input_queue: Arc<InputQueue>,
    /// On its executor.
    pub index: usize,
}

/// A query that has been checked, with the app it is for.
pub(crate) struct Prepared {
    app: AskedApp,
    query: Arc<OnDemand>,
    /// From when it was checked.
    span: Option<Span>,
}

impl Prepared {
    /// Does it change a table?
    pub fn is_write(&self) -> bool {
        matches!(*self.query, OnDemand::Write(_))
    }

    pub fn app(&self) -> &str {
        &self.app.name
    }
}

struct Checked {
    plan: Arc<Plan>,
    text: String,
    query: Arc<OnDemand>,
}

/// Why a query has no answer.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// There is no such app.
    NoApp(String),
    /// The query is at fault.
    Query(Vec<Diagnostic>),
    /// The app has ended.
    Gone(String),
}

impl Asker {
    pub(crate) fn new(catalog: Catalog, tracer: Option<Tracer>) -> Asker {
        Asker(Arc::new(Inner {
            catalog,
            tracer,
            apps: Mutex::default(),
            checked: Mutex::default(),
            store_questions: Arc::new(Semaphore::new(STORE_QUESTIONS_MAX)),
        }))
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }

    /// These apps run now, and no others.
    pub(crate) fn set(&self, apps: Vec<AskedApp>) {
        *self.0.apps.lock().unwrap_or_else(PoisonError::into_inner) = apps.into();
        self.checked_queries().clear();
    }

    fn checked_queries(&self) -> MutexGuard<'_, VecDeque<Checked>> {
        let queries = &self.0.checked;
        queries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks a query to the app of a name, or to the only one there is.
    pub(crate) fn prepare(&self, app: Option<&str>, text: &str) -> Result<Prepared, Refusal> {
        let app = self.app(app)?;
        let mut span = self.0.tracer.as_ref().map(|tracer| tracer.span("query"));
        if let Some(span) = &mut span {
            span.set("app", &app.name);
        }
        match self.checked(&app.plan, text) {
            Ok(query) => Ok(Prepared { app, query, span }),
            Err(refusal) => {
                if let Some(span) = &mut span {
                    span.fail("refused");
                }
                Err(refusal)
            }
        }
    }

    /// Has a query answered.
    pub(crate) async fn ask(&self, prepared: Prepared) -> Result<Answer, Refusal> {
        let Prepared {
            app,
            query,
            mut span,
        } = prepared;
        let answer = self.answer(&app, query).await;
        if let (Some(span), Err(_)) = (&mut span, &answer) {
            span.fail("refused");
        }
        answer
    }

    async fn answer(&self, app: &AskedApp, query: Arc<OnDemand>) -> Result<Answer, Refusal> {
        // Each may keep rows in memory that the app has replaced, so they are few.
        let turn = match engine::asks_store(&app.plan, &query) {
            Some(_) => Arc::clone(&self.0.store_questions)
                .acquire_owned()
                .await
                .ok(),
            None => None,
        };
        let (reply, answer) = oneshot::channel();
        let question = Question {
            app: app.index,
            query,
            reply,
        };
        let gone = || Refusal::Gone(format!("app '{}' has ended", app.name));
        let input = ExecutorInput::Ask(Box::new(question));
        app.input_queue.push_always(input).map_err(|_| gone())?;
        let answer = match answer.await {
            Ok(Reply::Answered(answer)) => answer,
            // The turn is over when the work is, even where nobody waits for that any more.
            Ok(Reply::Apart(question)) => answered_apart(question, turn).await,
            Err(_) => return Err(gone()),
        };
        answer.map_err(|error| Refusal::Query(vec![failed(&error)]))
    }

    /// Has a checkpoint made of an app, or of all, and waits until it is durable. Of all, those that have
    /// ended are left out: what they have saved stays.
    pub(crate) async fn save(&self, app: Option<&str>) -> Result<(), Refusal> {
        let apps = match app {
            Some(_) => vec![self.app(app)?],
            None => self.apps().to_vec(),
        };
        let mut queues: Vec<&Arc<InputQueue>> = Vec::new();
        for app in &apps {
            if !queues
                .iter()
                .any(|queue| Arc::ptr_eq(queue, &app.input_queue))
            {
                queues.push(&app.input_queue);
            }
        }
        let mut answers = Vec::new();
        for queue in queues {
            let (reply, answer) = oneshot::channel();
            let reply = HeldAnswer::Sent(reply);
            queue.push_always(ExecutorInput::Save(reply)).ok();
            answers.push(answer);
        }
        for answer in answers {
            if let (Err(_), Some(name)) = (answer.await, app) {
                return Err(Refusal::Gone(format!("app '{name}' has ended")));
            }
        }
        Ok(())
    }

    /// The app of a name, or the only one there is.
    pub(crate) fn app(&self, name: Option<&str>) -> Result<AskedApp, Refusal> {
        let apps = self.apps();
        let names = || {
            let names: Vec<String> = apps.iter().map(|a| format!("'{}'", a.name)).collect();
            names.join(", ")
        };
        match (name, &*apps) {
            (None, [app]) => Ok(app.clone()),
            (None, _) => Err(Refusal::NoApp(format!(
                "several apps are running: choose one of {}",
                names()
            ))),
            (Some(name), _) => {
                let app = apps.iter().find(|app| app.name == name).cloned();
                let none = || format!("there is no app '{name}'; running: {}", names());
                app.ok_or_else(|| Refusal::NoApp(none()))
            }
        }
    }

    /// Those that run now.
    pub(crate) fn apps(&self) -> Arc<[AskedApp]> {
        Arc::clone(&self.0.apps.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has all apps make a checkpoint, and waits for those that come in time.
    pub(crate) fn save_all(&self, until: Instant) {
        #[expect(clippy::disallowed_methods, reason = "no more answers than apps")]
        let (reply, saved) = channel();
        for app in self.apps().iter() {
            // One that has ended has been saved.
            let input = ExecutorInput::Save(HeldAnswer::Replayed(reply.clone(), 0));
            app.input_queue.push_always(input).ok();
        }
        drop(reply);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match saved.recv_timeout(left) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => return,
            }
        }
    }

    /// Has all apps make a checkpoint, and waits for none.
    pub(crate) fn request_saves(&self) {
        for app in self.apps().iter() {
            // One that has ended has been saved.
            app.input_queue.push_always(ExecutorInput::Acknowledge).ok();
        }
    }

    fn checked(&self, plan: &Arc<Plan>, text: &str) -> Result<Arc<OnDemand>, Refusal> {
        let is_it = |c: &Checked| Arc::ptr_eq(&c.plan, plan) && c.text == text;
        {
            let mut known = self.checked_queries();
            if let Some(at) = known.iter().position(is_it)
                && let Some(checked) = known.remove(at)
            {
                let query = Arc::clone(&checked.query);
                known.push_back(checked);
                return Ok(query);
            }
        }
        let query = Arc::new(check(text, plan, self.catalog())?);
        let mut known = self.checked_queries();
        if known.len() >= CHECKED_MAX {
            known.pop_front();
        }
        known.push_back(Checked {
            plan: Arc::clone(plan),
            text: text.to_owned(),
            query: Arc::clone(&query),
        });
        Ok(query)
    }
}

/// Answers on a thread for blocking work, which gives up when this future is dropped.
async fn answered_apart(
    question: Box<ApartQuestion>,
    turn: Option<OwnedSemaphorePermit>,
) -> Result<Answer, AskError> {
    let wanted = Arc::new(());
    let waits = Arc::downgrade(&wanted);
    let answer = tokio::task::spawn_blocking(move || {
        let answer = question.answer(&|| waits.strong_count() > 0);
        drop(turn);
        answer
    });
    let answer = answer.await;
    drop(wanted);
    answer.unwrap_or_else(|_| {
        Err(AskError {
            message: "an internal error ended the query".to_owned(),
            span: lang::span::Span::default(),
        })
    })
}

fn check(text: &str, plan: &Plan, catalog: &Catalog) -> Result<OnDemand, Refusal> {
    let is_error = |d: &Diagnostic| d.severity == Severity::Error;
    let (parsed, faults) = lang::parser::parse_on_demand(text);
    let Some(parsed) = parsed.filter(|_| !faults.iter().any(is_error)) else {
        return Err(Refusal::Query(faults));
    };
    let checked = check::check_on_demand(&parsed, plan, catalog);
    checked.query.ok_or(Refusal::Query(checked.diagnostics))
}

/// What went wrong while the app answered has no code of its own.
pub(crate) fn failed(error: &AskError) -> Diagnostic {
    Diagnostic {
        code: "",
        severity: Severity::Error,
        kind: Kind::Type,
        message: error.message.clone(),
        span: error.span,
        label: "fails here".to_owned(),
        related: Vec::new(),
        help: None,
        fix: None,
    }
}
