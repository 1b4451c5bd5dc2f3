//! Which snapshot a restart goes on from.
//!
//! Epoch N is written in two phases: snapshot N becomes durable, then every transactional store
//! commits its rows together with the number N, then N is marked current. A crash between the
//! phases leaves snapshot N without its rows; the number in the store tells.

/// The snapshot to restore (`None`: start empty), and what the user should know.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Choice {
    pub epoch: Option<u64>,
    pub warnings: Vec<String>,
}

/// `snapshots`: readable epochs, newest first. `current`: newest epoch known to be committed by
/// all. `stores`: name and last committed epoch of each transactional store, 0 for none.
pub fn choose(snapshots: &[u64], current: Option<u64>, stores: &[(String, u64)]) -> Choice {
    let newest = snapshots.first().copied();
    let Some(oldest_store) = stores.iter().map(|(_, e)| *e).min() else {
        return Choice {
            epoch: newest,
            warnings: Vec::new(),
        };
    };
    let mut warnings = Vec::new();
    for (name, epoch) in stores {
        if *epoch != oldest_store {
            warnings.push(format!(
                "store '{name}' has committed epoch {epoch}, another one only {oldest_store}: \
                 rows of the epochs between may be written to it twice"
            ));
        }
    }
    if oldest_store == 0 {
        // Nothing was ever committed: lawful only while the first epoch was on its way.
        if current.is_none() {
            return Choice {
                epoch: None,
                warnings,
            };
        }
    } else if snapshots.contains(&oldest_store) {
        return Choice {
            epoch: Some(oldest_store),
            warnings,
        };
    }
    warnings.push(match newest {
        Some(newest) => format!(
            "no snapshot fits the stores, which have committed epoch {oldest_store}: going on \
             from epoch {newest}; rows may be missing or stand twice (was a database or the state \
             directory replaced?)"
        ),
        None => format!(
            "the stores have committed epoch {oldest_store} but there is no snapshot: starting \
             empty; rows may stand twice"
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
    }
}
