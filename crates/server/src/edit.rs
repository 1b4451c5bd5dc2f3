//! What happens to saved state if apps were edited since it was saved: reported before the run
//! starts, which is refused if state would be lost without `--drop-state`.

use engine::StateMatching;

/// All apps of a group.
#[derive(Default)]
pub(crate) struct Edit {
    kept: Vec<String>,
    dropped: Vec<String>,
    begun: Vec<String>,
}

impl Edit {
    pub fn add(&mut self, app: &str, matching: StateMatching) {
        let named = |text: String| format!("app '{app}': {text}");
        self.kept.extend(matching.kept.into_iter().map(named));
        self.dropped
            .extend(matching.dropped.iter().map(|d| named(d.to_string())));
        self.begun.extend(matching.begun.into_iter().map(named));
    }

    /// A source that the app has not any more had read up to somewhere.
    pub fn lost_position(&mut self, app: &str, key: &str) {
        self.dropped.push(format!(
            "app '{app}': source '{key}' (its read position): the app no longer has this source"
        ));
    }

    pub fn is_lossless(&self) -> bool {
        self.dropped.is_empty()
    }

    /// What survives, begins empty and is dropped.
    pub fn into_parts(self) -> (Vec<String>, Vec<String>, Vec<String>) {
        (self.kept, self.begun, self.dropped)
    }

    /// Nothing is said of an app that takes back all it had and has nothing new.
    pub fn say(&self) {
        if self.dropped.is_empty() && self.begun.is_empty() {
            return;
        }
        tracing::warn!(
            survives = listed(&self.kept),
            begins_empty = listed(&self.begun),
            dropped = listed(&self.dropped),
            "app was edited since its state was saved"
        );
    }

    pub fn refusal(&self) -> String {
        format!(
            "the app was edited and would lose state: {}; undo the edit, allow it with \
             --drop-state, or use another directory to start afresh",
            self.dropped.join("; ")
        )
    }
}

fn listed(elements: &[String]) -> String {
    if elements.is_empty() {
        return "nothing".to_owned();
    }
    elements.join("; ")
}
