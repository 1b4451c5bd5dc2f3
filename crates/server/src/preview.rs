//! What an edited app would restore from its saved state: shown before it is deployed.
//!
//! Reads only, and takes no lock: the server that writes the state may be running, and files may go
//! while they are looked at. It decides as a start does; if stores would make a start continue from
//! an older snapshot, the current one is shown.

use std::path::{Path, PathBuf};

use engine::{App, Setup};
use plan::Plan;

use crate::edit::Edit;
use crate::error::Error;
use crate::rejected::POSITION;
use crate::report::chain;
use crate::state::Saved;
use crate::state::saved_group;

/// What becomes of the saved state of an app.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Preview {
    /// The directory of its group, and the snapshot that was looked at.
    pub path: PathBuf,
    pub epoch: u64,
    pub survives: Vec<String>,
    pub begins_empty: Vec<String>,
    /// Each with the reason. A run with any of these is refused unless it may drop them.
    pub dropped: Vec<String>,
}

impl Preview {
    /// `None`: nothing is saved of the app.
    ///
    /// # Errors
    /// The state cannot be read, or a start would refuse it, or the app cannot run.
    pub fn of(plan: &Plan, root: &Path) -> Result<Option<Preview>, Error> {
        let Some(group) = saved_group(root, &plan.name)? else {
            return Ok(None);
        };
        let Some((epoch, bytes)) = group.newest()? else {
            return Ok(None);
        };
        let path = group.path("");
        let state_error = |message: String| Error::State {
            path: path.clone(),
            message,
        };
        let saved = Saved::read(bytes).map_err(|e| state_error(chain(&e)))?;
        let setup = Setup {
            environment: engine::AppEnvironment {
                app: plan.name.clone(),
                scripts: Some(&script::JavaScript),
                ..engine::AppEnvironment::default()
            },
            links: engine::topic_links(plan),
            ..Setup::default()
        };
        let app = App::new(plan, setup).map_err(|e| {
            Error::Refused(format!("app '{}' cannot run: {}", plan.name, chain(&e)))
        })?;
        let mut edit = Edit::default();
        for (_, bytes) in saved.apps().filter(|(name, _)| *name == plan.name) {
            let matching = app.match_state(bytes).map_err(|e| state_error(chain(&e)))?;
            edit.add(&plan.name, matching);
        }
        let positions = saved.positions.iter();
        for (_, key, _) in positions.filter(|(app, _, p)| *app == plan.name && p.is_some()) {
            if key != POSITION && !has_source(plan, key) {
                edit.lost_position(&plan.name, key);
            }
        }
        let (survives, begins_empty, dropped) = edit.into_parts();
        Ok(Some(Preview {
            path,
            epoch,
            survives,
            begins_empty,
            dropped,
        }))
    }

    pub fn in_words(&self) -> String {
        let mut text = format!(
            "\nstate in '{}', snapshot {}\n",
            self.path.display(),
            self.epoch
        );
        for (what, all) in [
            ("survives", &self.survives),
            ("begins empty", &self.begins_empty),
            ("is dropped", &self.dropped),
        ] {
            for (at, one) in all.iter().enumerate() {
                let what = if at == 0 { what } else { "" };
                text += &format!("  {what:<14}{one}\n");
            }
        }
        if !self.dropped.is_empty() {
            text += "  run refuses to start with this state, unless given --drop-state\n";
        }
        text
    }
}

/// Does an app read from outside under this key, `Stream[1]`?
pub(crate) fn has_source(plan: &Plan, key: &str) -> bool {
    plan.streams.iter().any(|stream| {
        (1..=stream.sources.len()).any(|n| *key == format!("{}[{n}]", stream.display_name()))
    })
}
