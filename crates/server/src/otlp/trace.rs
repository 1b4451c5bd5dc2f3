//! Spans: what a server does, and how long it takes.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::proto::{AnyKind, FAILED, INTERNAL, SpanRecord, SpanStatus, attribute, text};
use super::queue::Bounded;

/// Makes spans, which are pushed when they end. A copy of it makes spans of the same kind.
#[derive(Clone)]
pub struct Tracer(Arc<Inner>);

struct Inner {
    ended: Arc<Bounded<SpanRecord>>,
    /// Of so many batches of sources one is followed; 0: none.
    one_in: u64,
    batches: AtomicU64,
    ids: RandomState,
    last_id: AtomicU64,
    /// Both at the same moment, so that spans are as long as the monotonic clock says.
    start: Instant,
    wall_at_start: u64,
}

impl std::fmt::Debug for Tracer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracer")
            .field("one_in", &self.0.one_in)
            .finish_non_exhaustive()
    }
}

impl Tracer {
    /// `share`: of the batches of sources that are followed, from 0 to 1.
    pub(super) fn new(ended: Arc<Bounded<SpanRecord>>, share: f64) -> Tracer {
        let one_in = match share > 0.0 {
            true => (1.0 / share).round().max(1.0) as u64,
            false => 0,
        };
        Tracer(Arc::new(Inner {
            ended,
            one_in,
            batches: AtomicU64::new(0),
            ids: RandomState::new(),
            last_id: AtomicU64::new(0),
            start: Instant::now(),
            wall_at_start: now_nanos(),
        }))
    }

    /// Something begins by itself.
    pub(crate) fn span(&self, name: &'static str) -> Span {
        let trace = [self.id(), self.id()].concat();
        self.open(name, trace, Vec::new())
    }

    /// A batch comes from a source; `None`: it is not one of those that are followed.
    pub(crate) fn batch(&self, name: &'static str) -> Option<Span> {
        if self.0.one_in == 0 {
            return None;
        }
        let number = self.0.batches.fetch_add(1, Ordering::Relaxed);
        number
            .is_multiple_of(self.0.one_in)
            .then(|| self.span(name))
    }

    fn open(&self, name: &'static str, trace_id: Vec<u8>, parent_span_id: Vec<u8>) -> Span {
        Span {
            record: SpanRecord {
                trace_id,
                span_id: self.id(),
                parent_span_id,
                name: name.to_owned(),
                kind: INTERNAL,
                start_time_unix_nano: self.now(),
                ..SpanRecord::default()
            },
            tracer: self.clone(),
        }
    }

    /// Eight bytes that nobody else has, and that are not all zero.
    fn id(&self) -> Vec<u8> {
        let mut hasher = self.0.ids.build_hasher();
        hasher.write_u64(self.0.last_id.fetch_add(1, Ordering::Relaxed));
        (hasher.finish() | 1).to_be_bytes().to_vec()
    }

    fn now(&self) -> u64 {
        let passed = u64::try_from(self.0.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0.wall_at_start.saturating_add(passed)
    }
}

/// Something that is being done; it ends when dropped.
pub(crate) struct Span {
    record: SpanRecord,
    tracer: Tracer,
}

impl Span {
    /// A part of it begins.
    pub fn part(&self, name: &'static str) -> Span {
        let trace = self.record.trace_id.clone();
        self.tracer.open(name, trace, self.record.span_id.clone())
    }

    pub fn set(&mut self, key: &'static str, value: &str) {
        self.record.attributes.push(text(key, value));
    }

    pub fn set_count(&mut self, key: &'static str, value: usize) {
        let value = AnyKind::Int(i64::try_from(value).unwrap_or(i64::MAX));
        self.record.attributes.push(attribute(key, value));
    }

    /// It did not work.
    pub fn fail(&mut self, why: &str) {
        self.record.status = Some(SpanStatus {
            message: why.to_owned(),
            code: FAILED,
        });
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        self.record.end_time_unix_nano = self.tracer.now();
        let record = std::mem::take(&mut self.record);
        self.tracer.0.ended.push(record);
    }
}

pub(super) fn now_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_belong_to_the_trace_of_what_they_are_parts_of() {
        let ended = Arc::new(Bounded::new(8));
        let tracer = Tracer::new(Arc::clone(&ended), 0.5);
        let followed: Vec<bool> = (0..4).map(|_| tracer.batch("receive").is_some()).collect();
        assert_eq!(followed, [true, false, true, false]);
        assert_eq!(ended.take().len(), 2);
        let mut whole = tracer.span("checkpoint");
        whole.set("app", "Shop");
        whole.set_count("rows", 3);
        drop(whole.part("write"));
        whole.fail("disk full");
        drop(whole);
        let spans = ended.take();
        let (part, whole) = (&spans[0], &spans[1]);
        assert_eq!(
            (part.name.as_str(), whole.name.as_str()),
            ("write", "checkpoint")
        );
        assert_eq!(part.trace_id, whole.trace_id);
        assert_eq!(part.parent_span_id, whole.span_id);
        assert_eq!((whole.trace_id.len(), whole.span_id.len()), (16, 8));
        assert!(whole.parent_span_id.is_empty() && part.span_id != whole.span_id);
        assert!(whole.start_time_unix_nano <= part.start_time_unix_nano);
        assert!(part.end_time_unix_nano <= whole.end_time_unix_nano);
        assert_eq!(whole.status.as_ref().map(|s| s.code), Some(FAILED));
        let off = Tracer::new(Arc::clone(&ended), 0.0);
        assert!(off.batch("receive").is_none());
    }
}
