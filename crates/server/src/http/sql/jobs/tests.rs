//! Jobs of an engine that answers what a test gives it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::sync::mpsc;

use super::super::SqlAnswer;
use super::*;

type Given = std::result::Result<SqlBlock, SqlRefusal>;

/// Answers with what comes; counts the answers that are open.
#[derive(Default)]
struct Engine {
    answers: Mutex<VecDeque<mpsc::UnboundedReceiver<Given>>>,
    open: Arc<AtomicUsize>,
}

struct Answer {
    blocks: mpsc::UnboundedReceiver<Given>,
    open: Arc<AtomicUsize>,
}

impl SqlEngine for Engine {
    fn ask(&self, question: SqlQuestion) -> Box<dyn SqlAnswer> {
        assert!(question.is_job);
        self.open.fetch_add(1, Ordering::SeqCst);
        let blocks = lock(&self.answers).pop_front();
        Box::new(Answer {
            blocks: blocks.expect("a test gives an answer"),
            open: Arc::clone(&self.open),
        })
    }
}

impl SqlAnswer for Answer {
    fn poll_block(&mut self, context: &mut Context<'_>) -> Poll<Option<Given>> {
        self.blocks.poll_recv(context)
    }

    fn progress(&self) -> Arc<dyn SqlProgress> {
        Arc::new(Half)
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Half;

impl SqlProgress for Half {
    fn rows_read(&self) -> u64 {
        5
    }

    fn rows_to_read(&self) -> Option<u64> {
        Some(10)
    }
}

const PATIENCE: Duration = Duration::from_secs(60);
const AGE: Duration = Duration::from_secs(60 * 60);

fn caller(user: Option<&str>, role: Role) -> Caller {
    Caller {
        user: user.map(Arc::from),
        role: Some(role),
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
    }
}

struct Place {
    engine: Arc<Engine>,
    jobs: Jobs,
}

impl Place {
    fn new(bytes: u64) -> Place {
        Place {
            engine: Arc::default(),
            jobs: Jobs::new(JobLimits { bytes, age: AGE }),
        }
    }

    /// Begins a job, which is answered by what is sent.
    fn begin(&self, user: Option<&str>) -> (Arc<Job>, mpsc::UnboundedSender<Given>) {
        let (sender, answer) = mpsc::unbounded_channel();
        lock(&self.engine.answers).push_back(answer);
        let begun = self.jobs.begin(
            Arc::<Engine>::clone(&self.engine),
            Asked {
                sql: " select 1".to_owned(),
                format: SqlFormat::Csv,
                kind: "text/csv",
                page_rows: None,
                caller: caller(user, Role::Read),
                explain: Box::new(|refusal| {
                    (
                        StatusCode::BAD_REQUEST,
                        json!({ "message": refusal.message() }),
                    )
                }),
            },
        );
        let job = begun.unwrap_or_else(|_| panic!("it is begun"));
        (job, sender)
    }

    /// One that has ended, with so many bytes.
    async fn done(&self, bytes: usize) -> Arc<Job> {
        let (job, answer) = self.begin(None);
        answer.send(Ok(block(&"x".repeat(bytes), true))).ok();
        drop(answer);
        job.ended_within(PATIENCE).await;
        assert_eq!(job.show(AGE)["state"], "done");
        job
    }
}

fn block(text: &str, ends_page: bool) -> SqlBlock {
    SqlBlock {
        bytes: text.to_owned().into(),
        rows: 1,
        ends_page,
    }
}

fn page(job: &Job, number: usize) -> std::result::Result<(String, bool), String> {
    match job.page(number) {
        Result::Page { page, has_next, .. } => {
            let mut text = String::new();
            let read = page.read(|block| {
                text.push_str(std::str::from_utf8(&block).expect("a text"));
                Ok(())
            });
            read.expect("it is there");
            Ok((text, has_next))
        }
        Result::NotYet(pages) => Err(format!("not yet, {pages}")),
        Result::Beyond(pages) => Err(format!("beyond {pages}")),
        Result::Cancelled => Err("cancelled".to_owned()),
        Result::Failed(status, error) => Err(format!("{status} {error}")),
    }
}

#[tokio::test]
async fn a_job_gives_its_pages_as_they_become_whole() {
    let place = Place::new(1000);
    let (job, answer) = place.begin(None);
    assert_eq!(page(&job, 0), Err("not yet, 0".to_owned()));
    for (text, ends_page) in [("a\n", false), ("b\n", true), ("c\n", false)] {
        answer.send(Ok(block(text, ends_page))).expect("it runs");
    }
    while job.show(AGE)["rows"] != 3 {
        tokio::task::yield_now().await;
    }
    let shown = job.show(AGE);
    assert_eq!(shown["state"], "running");
    assert_eq!(
        (&shown["pages"], &shown["progress"]),
        (&json!(1), &json!(0.5))
    );
    assert_eq!(shown["statement"], "select 1");
    assert_eq!(page(&job, 0), Ok(("a\nb\n".to_owned(), true)));
    assert_eq!(page(&job, 1), Err("not yet, 1".to_owned()));
    answer.send(Ok(block("", true))).expect("it runs");
    drop(answer);
    job.ended_within(PATIENCE).await;
    assert_eq!(page(&job, 1), Ok(("c\n".to_owned(), false)));
    assert_eq!(page(&job, 2), Err("beyond 2".to_owned()));
    let shown = job.show(AGE);
    assert_eq!(
        (&shown["state"], &shown["bytes"], &shown["progress"]),
        (&json!("done"), &json!(6), &json!(1.0))
    );
    assert!(shown["expires"].is_string());
    // Forgotten, with its bytes.
    assert!(place.jobs.end(&job));
    assert!(
        place
            .jobs
            .find(job.id(), &caller(None, Role::Read))
            .is_none()
    );
    assert_eq!(lock(&place.jobs.0.known).bytes, 0);
}

#[tokio::test]
async fn a_cancelled_job_ends_its_statement_and_a_failed_one_says_why() {
    let place = Place::new(1000);
    let (job, answer) = place.begin(None);
    answer.send(Ok(block("a", true))).expect("it runs");
    while job.show(AGE)["rows"] != 1 {
        tokio::task::yield_now().await;
    }
    assert!(!place.jobs.end(&job), "it runs, so it is not forgotten");
    job.ended_within(PATIENCE).await;
    assert_eq!(job.show(AGE)["state"], "cancelled");
    assert_eq!(page(&job, 0), Err("cancelled".to_owned()));
    assert_eq!(place.engine.open.load(Ordering::SeqCst), 0);
    let (job, answer) = place.begin(None);
    answer
        .send(Err(SqlRefusal::Rows("too many rows".to_owned())))
        .expect("it runs");
    job.ended_within(PATIENCE).await;
    let shown = job.show(AGE);
    assert_eq!(
        (&shown["state"], &shown["error"]["message"]),
        (&json!("failed"), &json!("too many rows"))
    );
    let said = page(&job, 0).expect_err("it has failed");
    assert!(said.starts_with("400 Bad Request"), "{said}");
    assert_eq!(lock(&place.jobs.0.known).bytes, 0);
}

#[tokio::test]
async fn the_oldest_results_make_room_and_what_never_fits_is_refused() {
    let place = Place::new(100);
    let first = place.done(60).await;
    let second = place.done(30).await;
    let third = place.done(40).await;
    let is_known = |job: &Arc<Job>| {
        place
            .jobs
            .find(job.id(), &caller(None, Role::Read))
            .is_some()
    };
    assert_eq!([&first, &second, &third].map(is_known), [false, true, true]);
    let (job, answer) = place.begin(None);
    for _ in 0..2 {
        answer.send(Ok(block(&"x".repeat(60), false))).ok();
    }
    job.ended_within(PATIENCE).await;
    let error = &job.show(AGE)["error"]["message"];
    assert!(
        error
            .as_str()
            .is_some_and(|text| text.contains("--sql-jobs-size")),
        "{error}"
    );
    assert_eq!(lock(&place.jobs.0.known).bytes, 0);
}

#[tokio::test]
async fn jobs_are_as_many_as_may_be_and_two_run_at_a_time() {
    let place = Place::new(100);
    let mut answers = Vec::new();
    for _ in 0..JOBS_MAX {
        answers.push(place.begin(None).1);
    }
    tokio::task::yield_now().await;
    assert_eq!(place.engine.open.load(Ordering::SeqCst), AT_ONCE);
    let asked = |user| Asked {
        sql: String::new(),
        format: SqlFormat::Csv,
        kind: "text/csv",
        page_rows: None,
        caller: caller(user, Role::Read),
        explain: Box::new(|_| (StatusCode::OK, Json::Null)),
    };
    let engine: Arc<dyn SqlEngine> = Arc::<Engine>::clone(&place.engine);
    let refused = place.jobs.begin(engine, asked(None));
    assert!(matches!(refused, Err(NotBegun::TooMany(JOBS_MAX))));
}

#[tokio::test]
async fn a_job_is_there_for_its_user_and_for_who_may_do_everything() {
    let place = Place::new(100);
    let (job, _answer) = place.begin(Some("anna"));
    for (user, role, is_there) in [
        ("anna", Role::Read, true),
        ("bert", Role::Deploy, false),
        ("bert", Role::Admin, true),
    ] {
        let caller = caller(Some(user), role);
        assert_eq!(
            place.jobs.find(job.id(), &caller).is_some(),
            is_there,
            "{user}"
        );
        assert_eq!(
            place.jobs.list(&caller).len(),
            usize::from(is_there),
            "{user}"
        );
    }
}

#[tokio::test]
async fn a_job_is_forgotten_when_its_time_is_over() {
    let age = Duration::from_millis(20);
    let place = Place {
        jobs: Jobs::new(JobLimits { bytes: 100, age }),
        ..Place::new(100)
    };
    let (job, answer) = place.begin(None);
    drop(answer);
    job.ended_within(PATIENCE).await;
    let known = || place.jobs.list(&caller(None, Role::Read)).len();
    let forgotten = async {
        while known() > 0 {
            tokio::time::sleep(age).await;
        }
    };
    let forgotten = tokio::time::timeout(PATIENCE, forgotten).await;
    forgotten.expect("it is forgotten");
}
