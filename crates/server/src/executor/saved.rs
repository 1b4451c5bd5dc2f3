//! What an executor saves between two steps: the positions of its sources, pending effects and its apps.

use event::codec::Writer;

use super::Executor;
use crate::rejected::POSITION;
use crate::state::saved::VERSION;

impl Executor {
    /// Positions and pending effects, then each app: all of it, or what has changed since it was
    /// saved. Topics carry nothing between two steps.
    pub(super) fn snapshot(&self, writer: &mut Writer, changes: bool) {
        writer.u8(VERSION);
        writer.section(|w| self.save_positions(w));
        writer.count(self.apps.len());
        for app in &self.apps {
            writer.str(&app.name);
            match changes {
                true => app.engine.save_changes(writer),
                false => app.engine.save(writer),
            }
        }
    }

    fn save_positions(&self, writer: &mut Writer) {
        writer.u64(self.rejected.len());
        let has_replayed = !self.replayed.is_empty();
        writer.count(self.sources.len() + usize::from(has_replayed));
        if has_replayed && let Some(app) = self.apps.first() {
            // As the position of a source that is none: they go with the checkpoint that has them.
            let mut replayed = Writer::default();
            self.replayed.write(&mut replayed);
            writer.str(&app.name);
            writer.str(POSITION);
            writer.bool(true);
            writer.blob(&replayed.bytes);
            writer.blob(&[]);
        }
        for source in &self.sources {
            writer.str(&self.apps[source.app].name);
            writer.str(&source.key);
            writer.bool(source.position.is_some());
            if let Some(position) = &source.position {
                writer.blob(&position.source);
                writer.blob(&position.mapper);
            }
        }
        writer.count(self.checkpointer.effects.len());
        for effect in &self.checkpointer.effects {
            writer.str(&effect.app);
            writer.str(&effect.function);
            writer.count(effect.arguments.len());
            effect.arguments.iter().for_each(|v| writer.value(v));
        }
    }
}
