use super::*;
use crate::plan::{Amount, Ledger, Meter, Unit, Window};
use serde_json::json;
use std::time::Duration;

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
}

fn plan(name: &str, limits: &serde_json::Value) -> Plan {
    Plan::from_json(name, limits).expect("it is right")
}

fn offered(registry: &Registry) {
    let plans = vec![
        plan("Small", &json!({"events": "5/day"})),
        plan("Large", &json!({"events": "50/day"})),
    ];
    registry.offer([
        ("Ticks/1.0.0".to_owned(), plans),
        ("Open/1".to_owned(), Vec::new()),
    ]);
}

fn key(application: &str, api: &str) -> Key {
    Key {
        application: Some(application.to_owned()),
        api: api.to_owned(),
        topic: "/t".to_owned(),
        user: None,
        address: None,
    }
}

#[test]
fn what_was_answered_is_there_after_a_crash() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let state = dir.path().join("state");
    let registry = Registry::open(Some(&state)).expect("made");
    offered(&registry);
    let scopes = ["ticks:read".to_owned()];
    let (shop, secret) = registry
        .create_application("Shop", Some("anna"), &scopes, at(0))
        .expect("made");
    assert_eq!(shop.client, secret.id);
    let new = NewKey {
        scopes: scopes.to_vec(),
        expires: Some(seconds(at(100))),
        addresses: vec!["10.0.0.0/8".to_owned(), "::1".to_owned()],
        referrers: vec!["shop.example/*".to_owned()],
    };
    let api_key = registry.create_key("Shop", &new, at(1)).expect("made");
    registry
        .set_plan(&plan("Team", &json!({"events": "2000/s"})))
        .expect("made");
    registry
        .subscribe("Shop", "ticks", Some("Team"), at(2))
        .expect("subscribed");
    registry
        .revoke(
            Subject::Token("t1".to_owned()),
            Some(seconds(at(50))),
            at(3),
        )
        .expect("saved");
    registry
        .revoke(Subject::User("bob".to_owned()), None, at(3))
        .expect("saved");
    let sealed = registry.seal().seal(b"s3cret", "websub 1").expect("sealed");
    let all = (
        registry.applications(),
        registry.subscriptions(),
        registry.keys(None),
        registry.plans(),
    );
    // As a process that is killed: nothing is closed.
    std::mem::forget(registry);

    let again = Registry::open(Some(&state)).expect("read");
    assert_eq!(
        (
            again.applications(),
            again.subscriptions(),
            again.keys(None),
            again.plans()
        ),
        all
    );
    let found = again.api_key(&api_key.id).expect("it is there");
    assert_eq!(found.digest, digest_of(&api_key.text));
    assert_eq!(found.addresses.len(), 2);
    assert_eq!(
        again.client(&secret.id).expect("there").digest,
        digest_of(&secret.text)
    );
    assert_eq!(again.application_of(&secret.id).as_deref(), Some("Shop"));
    assert_eq!(again.application_of("Shop").as_deref(), Some("Shop"));
    assert_eq!(
        again.seal().open_sealed(&sealed, "websub 1").as_deref(),
        Some(&b"s3cret"[..])
    );
    assert_eq!(again.seal().open_sealed(&sealed, "websub 2"), None);
    again.sweep(at(50)).expect("swept");
    let left = database::revocations(&again.database()).expect("read");
    assert_eq!(left.len(), 1);
    // Neither key nor secret is in any file, and the files are the owner's.
    for entry in std::fs::read_dir(&state).expect("a directory") {
        let path = entry.expect("an entry").path();
        let bytes = std::fs::read(&path).expect("read");
        for secret in [&api_key.text, &secret.text, "s3cret"] {
            let has = bytes
                .windows(secret.len())
                .any(|part| part == secret.as_bytes());
            assert!(!has, "{}", path.display());
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = std::fs::metadata(&path)
                .expect("there")
                .permissions()
                .mode();
            assert_eq!(mode & 0o077, 0, "{}", path.display());
        }
    }
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    let registry = Registry::open(None).expect("in memory");
    offered(&registry);
    registry
        .create_application("Shop", None, &[], at(0))
        .expect("made");
    let refused = |result: Result<(), RegistryError>, part: &str| {
        let error = result.expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(
        registry
            .create_application("Shop", None, &[], at(0))
            .map(drop),
        "'Shop' already",
    );
    refused(
        registry
            .create_application("a\nb", None, &[], at(0))
            .map(drop),
        "cannot be the name",
    );
    refused(
        registry
            .create_application("x", None, &["a b".to_owned()], at(0))
            .map(drop),
        "cannot be a scope",
    );
    refused(
        registry
            .create_key("Shopp", &NewKey::default(), at(0))
            .map(drop),
        "did you mean 'Shop'?",
    );
    refused(
        registry
            .create_key("Other", &NewKey::default(), at(0))
            .map(drop),
        "apps create Other",
    );
    let bad = NewKey {
        addresses: vec!["10.0.0.0/99".to_owned()],
        ..NewKey::default()
    };
    refused(
        registry.create_key("Shop", &bad, at(0)).map(drop),
        "10.0.0.0/99",
    );
    refused(
        registry.subscribe("Shop", "Tick", None, at(0)).map(drop),
        "no API 'Tick'",
    );
    refused(
        registry
            .subscribe("Shop", "Ticks", Some("Gold"), at(0))
            .map(drop),
        "offers Small, Large",
    );
    refused(
        registry.subscribe("Nobody", "Ticks", None, at(0)).map(drop),
        "no application 'Nobody'",
    );
    refused(registry.unsubscribe("Shop", "Ticks"), "has not subscribed");
    refused(registry.revoke_key("x", at(0)), "no key 'x'");
    refused(registry.remove_plan("Gold"), "no plan 'Gold'");
    registry.set_plan(&plan("Gold", &json!({}))).expect("made");
    registry
        .subscribe("Shop", "Ticks", Some("Gold"), at(0))
        .expect("subscribed");
    refused(
        registry.remove_plan("Gold"),
        "has subscribed to 'Ticks' on plan 'Gold'",
    );
    refused(
        registry.remove_application("x", at(0)),
        "no application 'x'",
    );
}

#[test]
fn an_application_that_is_removed_takes_all_with_it() {
    let registry = Registry::open(None).expect("in memory");
    offered(&registry);
    registry
        .create_application("Shop", None, &[], at(0))
        .expect("made");
    let before = registry
        .create_key("Shop", &NewKey::default(), at(0))
        .expect("made");
    registry
        .subscribe("Shop", "Ticks", None, at(0))
        .expect("subscribed");
    registry.remove_application("Shop", at(1)).expect("removed");
    assert!(registry.keys(None).is_empty() && registry.subscriptions().is_empty());
    assert!(registry.api_key(&before.id).is_none());
    // One of the same name is another.
    let (_, secret) = registry
        .create_application("Shop", None, &[], at(2))
        .expect("made");
    assert!(registry.client(&secret.id).is_some());
    let renewed = registry.renew_client("Shop").expect("made");
    assert_eq!(renewed.id, secret.id);
    assert_eq!(
        registry.client(&secret.id).expect("there").digest,
        digest_of(&renewed.text)
    );
}

#[test]
fn the_plan_is_that_of_the_subscription_else_the_first_of_the_api() {
    let registry = Registry::open(None).expect("in memory");
    offered(&registry);
    registry
        .create_application("Shop", None, &[], at(0))
        .expect("made");
    let name = |api: &str| {
        registry
            .plan(&key("Shop", api))
            .map(|plan| plan.name.clone())
    };
    assert_eq!(name("Ticks/1.0.0").as_deref(), Some("Small"));
    assert_eq!(name("Open/1"), None);
    registry
        .subscribe("Shop", "Ticks", Some("Large"), at(0))
        .expect("subscribed");
    assert_eq!(name("Ticks/1.0.0").as_deref(), Some("Large"));
    registry
        .subscribe("Shop", "TICKS/1.0.0", Some("AsyncGold"), at(0))
        .expect("subscribed");
    assert_eq!(name("Ticks/1.0.0").as_deref(), Some("AsyncGold"));
    registry.unsubscribe("Shop", "ticks/1.0.0").expect("it has");
    assert_eq!(name("Ticks/1.0.0").as_deref(), Some("Large"));
}

#[test]
fn quotas_outlive_a_crash() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let one = Amount {
        events: 1,
        bytes: 0,
    };
    let mut total = 0;
    for _ in 0..20 {
        let registry = Registry::open(Some(dir.path())).expect("read");
        registry.offer([(
            "Ticks/1".to_owned(),
            vec![plan("P", &json!({"events": "640/day"}))],
        )]);
        let registry = Arc::new(registry);
        let plans = Arc::clone(&registry) as Arc<dyn Plans>;
        let ledger = Arc::clone(&registry) as Arc<dyn Ledger>;
        let meter = Meter::new(plans, ledger).expect("read");
        let account = meter.account(&key("Shop", "Ticks/1"), at(0));
        total += (0..45)
            .filter(|_| account.take(one, at(0)).is_allowed())
            .count();
        std::mem::forget(registry);
    }
    // Each run takes 45 of the 50 that it has reserved.
    assert_eq!(total, 12 * 45 + 40);
    let registry = Registry::open(Some(dir.path())).expect("read");
    let kept = registry.load().expect("read");
    let day = Window::new(1, Unit::Day).expect("a window");
    assert_eq!(
        (kept.len(), kept[0].window, kept[0].reserved),
        (1, day.index(at(0)), 640)
    );
    registry
        .forget(&[kept[0].counter.clone()])
        .expect("forgotten");
    assert!(registry.load().expect("read").is_empty());
}

#[test]
fn a_database_of_a_later_version_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    drop(Registry::open(Some(dir.path())).expect("made"));
    let path = dir.path().join(FILE);
    let database = Connection::open(&path).expect("opened");
    database
        .pragma_update(None, "user_version", 99)
        .expect("set");
    drop(database);
    let error = Registry::open(Some(dir.path()))
        .err()
        .expect("refused")
        .to_string();
    assert!(error.contains("version 99"), "{error}");
    std::fs::write(dir.path().join("gateway.key"), "short").expect("written");
    std::fs::remove_file(&path).expect("removed");
    let error = Registry::open(Some(dir.path()))
        .err()
        .expect("refused")
        .to_string();
    assert!(error.contains("not the key of a gateway"), "{error}");
}
