//! What happens to saved state if apps were edited since it was saved: reported before the run
//! starts, which is refused if state would be lost without `--drop-state`.

use engine::StateMatching;

/// All apps of a group.
#[derive(Default)]
pub(crate) struct Edit {
    kept: Vec<String>,
    /// By app.
    dropped: Vec<(String, String)>,
    begun: Vec<String>,
}

impl Edit {
    pub fn add(&mut self, app: &str, matching: StateMatching) {
        let named = |text: String| format!("app '{app}': {text}");
        self.kept.extend(matching.kept.into_iter().map(named));
        self.dropped.extend(
            matching
                .dropped
                .iter()
                .map(|d| (app.to_owned(), named(d.to_string()))),
        );
        self.begun.extend(matching.begun.into_iter().map(named));
    }

    /// A source that the app has not any more had read up to somewhere.
    pub fn lost_position(&mut self, app: &str, key: &str) {
        let lost = format!(
            "app '{app}': source '{key}' (its read position): the app no longer has this source"
        );
        self.dropped.push((app.to_owned(), lost));
    }

    /// Does no app lose anything, but for those that may?
    pub fn is_allowed(&self, may_drop: impl Fn(&str) -> bool) -> bool {
        self.dropped.iter().all(|(app, _)| may_drop(app))
    }

    fn lost(&self) -> Vec<String> {
        self.dropped.iter().map(|(_, lost)| lost.clone()).collect()
    }

    /// What survives, begins empty and is dropped.
    pub fn into_parts(self) -> (Vec<String>, Vec<String>, Vec<String>) {
        let dropped = self.lost();
        (self.kept, self.begun, dropped)
    }

    /// Nothing is said of an app that takes back all it had and has nothing new.
    pub fn say(&self) {
        if self.dropped.is_empty() && self.begun.is_empty() {
            return;
        }
        tracing::warn!(
            survives = listed(&self.kept),
            begins_empty = listed(&self.begun),
            dropped = listed(&self.lost()),
            "app was edited since its state was saved"
        );
    }

    pub fn refusal(&self) -> String {
        format!(
            "the app was edited and would lose state: {}; undo the edit, allow it with \
             --drop-state, or use another directory to start afresh",
            self.lost().join("; ")
        )
    }
}

fn listed(elements: &[String]) -> String {
    if elements.is_empty() {
        return "nothing".to_owned();
    }
    elements.join("; ")
}
