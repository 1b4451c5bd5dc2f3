//! What an executor saves between two steps: the positions of its sources, pending effects and its apps.

use event::codec::Writer;

use super::Executor;
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
        writer.count(self.sources.len());
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
