//! Which snapshot a restart goes on from.
//!
//! Epoch N is written in two phases: snapshot N becomes durable, then every store and sink that takes
//! part commits its rows together with the number N, then N is marked current. A crash between the
//! phases leaves snapshot N without its rows; the number beside them tells.

/// The snapshot to restore (`None`: start empty), and what the user should know.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Choice {
    pub epoch: Option<u64>,
    pub warnings: Vec<String>,
}

/// `snapshots`: readable epochs, newest first. `current`: newest epoch known to be committed by
/// all. `members`: name and last committed epoch of each store and sink that takes part, 0 for none.
///
/// One that knows of no epoch while there is a current one has no say: it is new in its app, was
/// replaced, or has forgotten (Kafka drops offsets of groups that nobody uses).
pub fn choose(snapshots: &[u64], current: Option<u64>, members: &[(String, u64)]) -> Choice {
    let newest = snapshots.first().copied();
    if members.is_empty() {
        return Choice {
            epoch: newest,
            warnings: Vec::new(),
        };
    }
    let mut warnings = Vec::new();
    let mut known = Vec::new();
    for (name, epoch) in members {
        match (epoch, current) {
            (0, Some(current)) => warnings.push(format!(
                "{name} knows of no epoch of this state directory, of which {current} is current: it \
                 is new in its app, was replaced, or has forgotten; what it was given since then may \
                 be written to it twice"
            )),
            _ => known.push((name, *epoch)),
        }
    }
    let Some(oldest) = known.iter().map(|(_, epoch)| *epoch).min() else {
        return Choice {
            epoch: current.filter(|epoch| snapshots.contains(epoch)).or(newest),
            warnings,
        };
    };
    for (name, epoch) in &known {
        if *epoch != oldest {
            warnings.push(format!(
                "{name} has committed epoch {epoch}, another one only {oldest}: rows of the epochs \
                 between may be written to it twice"
            ));
        }
    }
    if oldest == 0 {
        // Nothing was ever committed: lawful only while the first epoch was on its way.
        return Choice {
            epoch: None,
            warnings,
        };
    }
    if snapshots.contains(&oldest) {
        return Choice {
            epoch: Some(oldest),
            warnings,
        };
    }
    warnings.push(match newest {
        Some(newest) => format!(
            "no snapshot fits the stores, which have committed epoch {oldest}: going on from epoch \
             {newest}; rows may be missing or stand twice (was a database or the state directory \
             replaced?)"
        ),
        None => format!(
            "the stores have committed epoch {oldest} but there is no snapshot: starting empty; rows \
             may stand twice"
        ),
    });
    Choice {
        epoch: newest,
        warnings,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        snapshots: &[u64],
        current: Option<u64>,
        stores: &[u64],
        expect: Option<u64>,
        warns: usize,
    ) {
        let stores: Vec<_> = stores.iter().map(|&e| (format!("s{e}"), e)).collect();
        let choice = choose(snapshots, current, &stores);
        assert_eq!(
            (choice.epoch, choice.warnings.len()),
            (expect, warns),
            "{snapshots:?} {current:?} {stores:?}: {choice:?}"
        );
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
}
