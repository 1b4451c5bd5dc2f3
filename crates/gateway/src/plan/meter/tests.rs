use super::*;
use serde_json::json;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

/// A ledger that survives its meter, as a file survives its process.
#[derive(Default)]
struct Notes {
    noted: Mutex<HashMap<String, Reservation>>,
    writes: AtomicU64,
    is_full: AtomicBool,
}

impl Ledger for Notes {
    fn load(&self) -> Result<Vec<Reservation>, String> {
        Ok(lock(&self.noted).values().cloned().collect())
    }

    fn reserve(&self, reservations: &[Reservation], _: bool) -> Result<(), String> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err("no space left on device".to_owned());
        }
        self.writes.fetch_add(1, Ordering::Relaxed);
        let mut noted = lock(&self.noted);
        for one in reservations {
            noted.insert(one.counter.clone(), one.clone());
        }
        Ok(())
    }

    fn forget(&self, counters: &[String]) -> Result<(), String> {
        lock(&self.noted).retain(|name, _| !counters.contains(name));
        Ok(())
    }
}

struct Fixed(Arc<Plan>);

impl Plans for Fixed {
    fn plan(&self, _: &Key) -> Option<Arc<Plan>> {
        Some(Arc::clone(&self.0))
    }
}

fn meter(plan: &serde_json::Value, notes: &Arc<Notes>) -> Meter {
    let plan = Arc::new(Plan::from_json("P", plan).expect("it is right"));
    let notes = Arc::clone(notes) as Arc<dyn Ledger>;
    Meter::new(Arc::new(Fixed(plan)), notes).expect("it can be read")
}

fn key(user: &str) -> Key {
    Key {
        application: Some("Shop".to_owned()),
        api: "Ticks 1.0.0".to_owned(),
        topic: "/prices".to_owned(),
        user: Some(user.to_owned()),
        address: Some(IpAddr::from([10, 0, 0, 1])),
    }
}

const ONE: Amount = Amount {
    events: 1,
    bytes: 10,
};

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
}

fn taken(account: &Account, tries: u64, now: SystemTime) -> u64 {
    (0..tries)
        .map(|_| u64::from(account.take(ONE, now).is_allowed()))
        .sum()
}

// rules: T4
#[test]
fn a_limit_is_reached_exactly_and_begins_anew() {
    let notes = Arc::<Notes>::default();
    let meter = meter(&json!({"events": "1000/hour"}), &notes);
    let account = meter.account(&key("anna"), at(0));
    assert_eq!(taken(&account, 999, at(0)), 999);
    let last = account.take(ONE, at(0));
    let Verdict::Allowed {
        remaining,
        reset,
        limit,
    } = last
    else {
        panic!("{last:?}");
    };
    let end = Window::parse("hour").expect("a window").end(
        at(0)
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_secs() as i64 / 3600),
    );
    assert_eq!((remaining, reset, limit), (0, Some(end), 1000));
    let Verdict::Denied(denied) = account.take(ONE, at(0)) else {
        panic!("one too many");
    };
    assert_eq!(denied.reset, end);
    assert_eq!(
        denied.limit.to_string(),
        "the limit of 1000/hour events for each subscription is reached"
    );
    let mut headers = HeaderMap::new();
    denied.add_headers(&mut headers, end - Duration::from_millis(1500));
    assert_eq!(headers["retry-after"], "2");
    assert_eq!(
        (&headers["ratelimit-limit"], &headers["ratelimit-remaining"]),
        (&HeaderValue::from(1000), &HeaderValue::from(0))
    );
    assert!(denied.body(at(0)).contains("900804"));
    // Another user of the same application shares it; the next window is new.
    assert_eq!(taken(&meter.account(&key("bob"), at(0)), 1, at(0)), 0);
    assert_eq!(taken(&account, 2000, end), 1000);
    // A clock that was set back gives nothing.
    assert_eq!(taken(&account, 1, at(0)), 0);
}

// rules: T4
#[test]
fn many_at_a_time_get_what_there_is_and_no_more() {
    let notes = Arc::<Notes>::default();
    let limits = json!({
        "events": ["50000/day", "40000/month"], "api": {"bytes": "10MB/day"}, "user": {"events": "30000/day"},
    });
    let meter = meter(&limits, &notes);
    let allowed = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let account =
                    meter.account(&key(if number % 2 == 0 { "anna" } else { "bob" }), at(0));
                scope.spawn(move || taken(&account, 10_000, at(0)))
            })
            .collect();
        let taken = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        taken.sum::<u64>()
    });
    assert_eq!(allowed, 40_000);
    let used: Vec<u64> = meter.usage(at(0)).iter().map(|one| one.used).collect();
    assert_eq!(
        used.iter().filter(|used| **used == 40_000).count(),
        2,
        "{used:?}"
    );
    assert!(
        used.contains(&400_000),
        "bytes count as the events do: {used:?}"
    );
    assert!(
        notes.writes.load(Ordering::Relaxed) < 400,
        "one note for a block"
    );
}

// rules: T4
#[test]
fn a_crash_never_lets_more_through() {
    // Killed after so many, again and again: in all no more than the limit, and no block too few for each crash.
    for crash_after in [1, 7, 100, 781, 5000, 49_999] {
        let notes = Arc::<Notes>::default();
        let mut total = 0;
        let mut crashes = 0;
        loop {
            let meter = meter(&json!({"events": "50000/day"}), &notes);
            let account = meter.account(&key("anna"), at(0));
            let got = taken(&account, crash_after, at(0));
            total += got;
            if got < crash_after {
                break;
            }
            // Dropped without a word, as a process that is killed.
            crashes += 1;
        }
        assert!(total <= 50_000, "{crash_after}: {total}");
        assert!(
            total + (crashes + 1) * (50_000 / 64) >= 50_000,
            "{crash_after}: {total} after {crashes}"
        );
    }
}

#[test]
fn a_stop_in_good_order_loses_nothing() {
    let notes = Arc::<Notes>::default();
    let mut total = 0;
    for _ in 0..10 {
        let meter = meter(&json!({"events": "1000/day"}), &notes);
        let account = meter.account(&key("anna"), at(0));
        total += taken(&account, 150, at(0));
        meter.settle().expect("noted");
    }
    assert_eq!(total, 1000);
    // And after it more is noted again before it is used.
    let meter = meter(&json!({"events": "2000/day"}), &notes);
    let usage = meter.usage(at(0));
    assert_eq!(
        (usage.len(), usage[0].used),
        (1, 1000),
        "also before anybody asks"
    );
    let account = meter.account(&key("anna"), at(0));
    taken(&account, 10, at(0));
    meter.settle().expect("noted");
    taken(&account, 10, at(0));
    let noted = lock(&notes.noted).values().map(|one| one.reserved).max();
    assert!(noted >= Some(1020), "{noted:?}");
}

#[test]
fn what_has_no_room_on_one_level_costs_nothing_on_another() {
    let notes = Arc::<Notes>::default();
    let limits = json!({"events": "100/day", "address": {"bytes": "50/day"}});
    let meter = meter(&limits, &notes);
    let account = meter.account(&key("anna"), at(0));
    assert_eq!(taken(&account, 20, at(0)), 5);
    let Verdict::Denied(denied) = account.take(ONE, at(0)) else {
        panic!("one too many");
    };
    assert_eq!(
        (denied.limit.level, denied.limit.what),
        (Level::Address, "bytes")
    );
    let used: Vec<u64> = meter.usage(at(0)).iter().map(|one| one.used).collect();
    assert_eq!(used, [50, 5]);
    // All of it or nothing.
    let many = Amount {
        events: 96,
        bytes: 0,
    };
    assert!(!account.take(many, at(0)).is_allowed());
    assert!(
        account
            .take(
                Amount {
                    events: 95,
                    bytes: 0
                },
                at(0)
            )
            .is_allowed()
    );
}

#[test]
fn what_cannot_be_noted_is_not_let_through() {
    let notes = Arc::<Notes>::default();
    let meter = meter(&json!({"events": "6400/day"}), &notes);
    let account = meter.account(&key("anna"), at(0));
    assert_eq!(taken(&account, 50, at(0)), 50);
    notes.is_full.store(true, Ordering::Relaxed);
    assert_eq!(taken(&account, 100, at(0)), 50, "what was noted before");
    notes.is_full.store(false, Ordering::Relaxed);
    assert_eq!(taken(&account, 6300, at(0)), 6300, "and nothing was lost");
    assert_eq!(taken(&account, 1, at(0)), 0);
}

// rules: T7
#[test]
fn connections_are_counted_as_long_as_they_live() {
    let notes = Arc::<Notes>::default();
    let limits = json!({
        "connections": 3, "attempts": "100/day", "message": "1kB", "subscriptions": 7,
        "user": {"connections": 2, "message": "2kB", "duration": "1 hour"},
    });
    let meter = meter(&limits, &notes);
    let (anna, bob) = (
        meter.account(&key("anna"), at(0)),
        meter.account(&key("bob"), at(0)),
    );
    let first = anna.connect(at(0)).expect("room");
    let _second = anna.connect(at(0)).expect("room");
    let denied = anna.connect(at(0)).err().expect("no room");
    assert_eq!((denied.limit.level, denied.limit.count), (Level::User, 2));
    let _third = bob.connect(at(0)).expect("room");
    assert_eq!(
        bob.connect(at(0)).err().expect("no room").limit.level,
        Level::Subscription
    );
    drop(first);
    let again: Vec<Slot> = (0..95)
        .map(|_| bob.connect(at(0)).expect("as one goes another comes"))
        .map(|slot| {
            drop(slot);
            bob.connect(at(0)).ok()
        })
        .map_while(|slot| slot)
        .take(1)
        .collect();
    assert_eq!(again.len(), 1);
    assert!(bob.connect(at(0)).is_err());
    assert_eq!(
        (anna.message_max(), anna.subscriptions()),
        (Some(1024), Some(7))
    );
    assert_eq!(anna.duration(), Some(Duration::from_secs(3600)));
    drop(again);
    // Attempts run out.
    let denied = (0..200)
        .find_map(|_| bob.connect(at(0)).err())
        .expect("they end");
    assert_eq!(denied.limit.what, "attempts");
}

#[test]
fn counters_of_windows_that_are_over_are_forgotten() {
    let notes = Arc::<Notes>::default();
    let meter = meter(&json!({"user": {"events": "10/min"}}), &notes);
    for user in 0..100 {
        assert!(
            meter
                .take(&key(&format!("u{user}")), ONE, at(0))
                .is_allowed()
        );
    }
    let held = meter.account(&key("held"), at(0));
    assert!(held.take(ONE, at(0)).is_allowed());
    meter.sweep(at(0)).expect("nothing is over");
    assert_eq!(meter.usage(at(0)).len(), 101);
    meter.sweep(at(60)).expect("forgotten");
    assert_eq!(
        lock(&meter.shared.counters).len(),
        1,
        "the one that is held"
    );
    assert_eq!(lock(&notes.noted).len(), 1);
    assert_eq!(meter.usage(at(60)).len(), 0);
}

/// What is promised of several servers: they share no counters, so that each gives as much as the plan says, and so
/// many times the plan is the most that all of them give.
// rules: T8
#[test]
fn servers_give_the_plan_once_each_and_never_more() {
    let plan = json!({ "events": "100/day", "connections": 3 });
    for servers in [1, 2, 5] {
        let notes: Vec<Arc<Notes>> = (0..servers).map(|_| Arc::default()).collect();
        let meters: Vec<Meter> = notes.iter().map(|notes| meter(&plan, notes)).collect();
        let accounts: Vec<Account> = meters
            .iter()
            .map(|meter| meter.account(&key("u"), at(0)))
            .collect();
        // A client that is sent to each in turn, as a balancer does.
        let mut given = 0;
        for round in 0..1000 {
            given += taken(&accounts[round % servers], 1, at(0));
        }
        assert_eq!(given, 100 * servers as u64);
        let slots = accounts.iter().flat_map(|account| {
            let slots: Vec<Slot> = (0..10)
                .filter_map(|_| account.connect(at(0)).ok())
                .collect();
            slots
        });
        assert_eq!(slots.collect::<Vec<Slot>>().len(), 3 * servers);
        // A server that crashes and comes back gives no more than before.
        drop((accounts, meters));
        let meters: Vec<Meter> = notes.iter().map(|notes| meter(&plan, notes)).collect();
        let more: u64 = meters
            .iter()
            .map(|meter| taken(&meter.account(&key("u"), at(1)), 200, at(1)))
            .sum();
        assert_eq!(more, 0);
    }
}
