//! Which snapshot a restart continues from.
//!
//! Epoch N is written in two phases: snapshot N becomes durable, then every store and sink that
//! participates commits its rows together with the number N, then N is marked current. A crash
//! between the phases leaves snapshot N without its rows; the number next to them tells.

use super::Found;

/// The snapshot to restore (`None`: start empty), and what the user should know.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Choice {
    pub epoch: Option<u64>,
    pub warnings: Vec<String>,
    /// Why it has to be allowed.
    pub refusal: Option<String>,
}

impl Choice {
    fn new(epoch: Option<u64>, warnings: Vec<String>) -> Choice {
        Choice {
            epoch,
            warnings,
            refusal: None,
        }
    }
}

/// `members`: name and last committed epoch of each store and sink that takes part, 0 for none.
///
/// One that knows of no epoch while there is a current one has no say: it is new in its app, was
/// replaced, or has forgotten (Kafka drops offsets of groups that nobody uses).
pub fn choose(found: &Found, members: &[(String, u64)]) -> Choice {
    let snapshots = &found.epochs;
    let newest = snapshots.first().copied();
    if members.is_empty() {
        return Choice::new(newest, Vec::new());
    }
    // There was one where nobody knows which.
    let is_unknown = found.damage.iter().any(|damage| damage.epoch == 0);
    let current = match found.current {
        None => newest.filter(|_| is_unknown),
        known => known.filter(|&epoch| epoch > 0),
    };
    let mut warnings = Vec::new();
    let mut known = Vec::new();
    for (name, epoch) in members {
        match (epoch, current) {
            (0, Some(current)) => warnings.push(format!(
                "{name} has no epoch of this state directory, of which {current} is current: it is \
                 new in its app, was replaced, or has lost its data; rows written since then may \
                 be duplicated"
            )),
            _ => known.push((name, *epoch)),
        }
    }
    let Some(oldest) = known.iter().map(|(_, epoch)| *epoch).min() else {
        let epoch = current.filter(|epoch| snapshots.contains(epoch)).or(newest);
        return Choice::new(epoch, warnings);
    };
    for (name, epoch) in &known {
        if *epoch != oldest {
            warnings.push(format!(
                "{name} has committed epoch {epoch}, another one only {oldest}: rows of the epochs \
                 between may be duplicated in it"
            ));
        }
    }
    if oldest == 0 {
        // Nothing was ever committed: lawful only while the first epoch was on its way.
        return Choice::new(None, warnings);
    }
    if snapshots.contains(&oldest) {
        return Choice::new(Some(oldest), warnings);
    }
    // One that is newer than the current one was not committed by all: its rows are still to come.
    let is_committed = |epoch: &u64| found.current.is_none_or(|current| *epoch <= current);
    let epoch = snapshots.iter().copied().find(is_committed);
    warnings.push(match epoch {
        Some(epoch) => format!(
            "no snapshot fits the stores, which have committed epoch {oldest}: continuing from \
             epoch {epoch}; rows may be missing or duplicated (was a database or the state \
             directory replaced?)"
        ),
        None => format!(
            "the stores have committed epoch {oldest} but there is no snapshot: starting empty; \
             rows may be duplicated"
        ),
    });
    let is_damaged = found.damage.iter().any(|damage| damage.epoch == oldest);
    let refusal = is_damaged.then(|| {
        let from = epoch.map_or("start empty".to_owned(), |e| format!("continue from epoch {e}"));
        found.in_words(
            &format!(
                "the saved state of epoch {oldest}, which the stores have committed, is unusable, \
                 and a run would {from}"
            ),
            "that each row is written once: the stores would get those of the time since then again",
        )
    });
    Choice {
        epoch,
        warnings,
        refusal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Damage;

    fn check(
        snapshots: &[u64],
        current: Option<u64>,
        stores: &[u64],
        expect: Option<u64>,
        warns: usize,
    ) {
        let found = Found {
            epochs: snapshots.to_vec(),
            current,
            ..Found::default()
        };
        let choice = choose(&found, &members(stores));
        assert_eq!(
            (choice.epoch, choice.warnings.len(), &choice.refusal),
            (expect, warns, &None),
            "{snapshots:?} {current:?} {stores:?}: {choice:?}"
        );
    }

    fn members(epochs: &[u64]) -> Vec<(String, u64)> {
        epochs.iter().map(|&e| (format!("s{e}"), e)).collect()
    }

    #[test]
    fn the_store_decides_between_the_two_newest() {
        check(&[], None, &[], None, 0);
        check(&[7, 6], Some(7), &[], Some(7), 0);
        check(&[7, 6], Some(6), &[7], Some(7), 0);
        check(&[7, 6], Some(6), &[6], Some(6), 0);
        check(&[7, 6], Some(7), &[7], Some(7), 0);
    }

    #[test]
    fn a_first_epoch_that_was_never_committed_is_given_up() {
        check(&[1], None, &[0], None, 0);
        check(&[1], None, &[1], Some(1), 0);
        check(&[], None, &[0], None, 0);
    }

    #[test]
    fn what_does_not_fit_is_said() {
        check(&[7, 6], Some(7), &[0], Some(7), 1);
        check(&[7, 6], Some(7), &[9], Some(7), 1);
        check(&[7, 6], Some(6), &[7, 6], Some(6), 1);
        check(&[], None, &[4], None, 1);
        check(&[], None, &[4, 0], None, 1);
    }

    #[test]
    fn one_that_knows_nothing_leaves_it_to_the_others_or_to_what_is_current() {
        check(&[7, 6], Some(6), &[0], Some(6), 1);
        check(&[7, 6], Some(6), &[0, 7], Some(7), 1);
        check(&[7, 6], Some(6), &[0, 0], Some(6), 2);
        check(&[7, 6], Some(7), &[7, 0, 6], Some(6), 2);
        // The current one cannot be read.
        check(&[6], Some(7), &[0], Some(6), 1);
    }

    #[test]
    fn what_was_not_committed_by_all_is_not_gone_on_from_where_nothing_fits() {
        check(&[8, 6], Some(6), &[7], Some(6), 1);
        // After the state was dropped the empty beginning is current.
        check(&[8], Some(0), &[7], None, 1);
        check(&[8], Some(0), &[0], None, 0);
        check(&[9, 8], Some(8), &[8], Some(8), 0);
    }

    #[test]
    fn a_damaged_snapshot_that_stores_have_committed_is_not_passed_over_by_itself() {
        let damaged = |epoch| Damage {
            path: format!("/state/A/snapshot-{epoch}").into(),
            epoch,
            cause: "its checksum is wrong".to_owned(),
            bars: false,
        };
        let found = |epochs: &[u64], current| Found {
            epochs: epochs.to_vec(),
            current: Some(current),
            damage: vec![damaged(7)],
            ..Found::default()
        };
        let choice = choose(&found(&[6], 7), &members(&[7]));
        let refusal = choice.refusal.expect("rows would stand twice");
        for part in [
            "epoch 7",
            "continue from epoch 6",
            "snapshot-7: its checksum",
            "--drop-state",
        ] {
            assert!(refusal.contains(part), "{part} in {refusal}");
        }
        // Allowed, it is done.
        assert_eq!(choice.epoch, Some(6));
        // Where it is not known what is current, one that knows of no epoch has no say either.
        let unknown = Found {
            epochs: vec![6, 5],
            damage: vec![damaged(0)],
            ..Found::default()
        };
        assert_eq!(choose(&unknown, &members(&[0])).epoch, Some(6));
        // What was durable only, or is older, is missed by nobody.
        for (epochs, committed) in [(&[6, 5][..], 6), (&[8], 8)] {
            let choice = choose(&found(epochs, committed), &members(&[committed]));
            assert_eq!((choice.epoch, choice.refusal), (Some(committed), None));
        }
        assert_eq!(
            choose(&found(&[6], 7), &[]),
            Choice::new(Some(6), Vec::new())
        );
    }
}
