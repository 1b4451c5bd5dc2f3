//! The streams of a receiver: which sources take the events of each.

use std::sync::Arc;

use connect::net::Ingress;
use databridge::stream::{Layout, parts_of};

/// A source that takes the events of a stream.
#[derive(Clone)]
pub(super) struct Taker {
    pub app: String,
    /// The stream of the app.
    pub stream: String,
    pub ingress: Arc<Ingress>,
    /// Who publishes is answered when what he has sent is safe.
    pub is_durable: bool,
}

/// A stream of databridge.
#[derive(Clone)]
pub(super) struct Stream {
    pub layout: Arc<Layout>,
    pub takers: Vec<Taker>,
}

/// All of them, by id; a value is not changed but replaced.
#[derive(Clone, Default)]
pub(super) struct Streams(Vec<Stream>);

impl Streams {
    fn place(&self, id: &str) -> Result<usize, usize> {
        self.0
            .binary_search_by(|stream| stream.layout.id.as_str().cmp(id))
    }

    /// A source takes the events of a stream.
    ///
    /// # Errors
    /// Another has it otherwise, in words.
    pub fn add(&mut self, layout: Layout, taker: Taker) -> Result<(), String> {
        let place = match self.place(&layout.id) {
            Ok(place) => place,
            Err(place) => {
                let takers = vec![taker];
                let layout = Arc::new(layout);
                self.0.insert(place, Stream { layout, takers });
                return Ok(());
            }
        };
        let known = &mut self.0[place];
        match known.layout.difference(&layout.wire()) {
            Some(difference) => Err(format!(
                "stream '{}' of databridge is also taken by stream '{}' of app '{}', whose {difference}: give it \
                 another version in 'wso2.stream.id'",
                layout.id, known.takers[0].stream, known.takers[0].app
            )),
            None => {
                known.takers.push(taker);
                Ok(())
            }
        }
    }

    pub fn remove(&mut self, id: &str, ingress: &Arc<Ingress>) {
        let Ok(place) = self.place(id) else { return };
        let takers = &mut self.0[place].takers;
        takers.retain(|taker| !Arc::ptr_eq(&taker.ingress, ingress));
        if takers.is_empty() {
            self.0.remove(place);
        }
    }

    pub fn get(&self, id: &str) -> Option<&Stream> {
        self.place(id).ok().map(|place| &self.0[place])
    }

    /// The number of a stream among these, and its layout.
    pub fn numbered(&self, id: &str) -> Option<(usize, &Layout)> {
        let place = self.place(id).ok()?;
        Some((place, &self.0[place].layout))
    }

    /// The layout of a numbered stream.
    pub fn layout(&self, number: usize) -> &Layout {
        &self.0[number].layout
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn takers(&self) -> impl Iterator<Item = &Taker> {
        self.0.iter().flat_map(|stream| &stream.takers)
    }

    /// Who keeps what nobody takes: a source of another version of the stream, else any.
    pub fn keeper(&self, id: &str) -> Option<&Taker> {
        let name = |id| parts_of(id).0;
        let of_name = self
            .0
            .iter()
            .find(|stream| name(&stream.layout.id) == name(id));
        of_name.or_else(|| self.0.first())?.takers.first()
    }

    /// The ids, for who asks for one that is not here.
    pub fn said(&self) -> String {
        const SHOWN_MAX: usize = 20;
        let shown = self.0.iter().take(SHOWN_MAX);
        let shown: Vec<&str> = shown.map(|stream| stream.layout.id.as_str()).collect();
        let more = match self.0.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("there are {}{more}", shown.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use event::Type;

    use super::*;

    fn taker(app: &str) -> Taker {
        Taker {
            app: app.to_owned(),
            stream: "S".to_owned(),
            ingress: Arc::default(),
            is_durable: false,
        }
    }

    fn layout(id: &str, ty: Type) -> Layout {
        Layout::new(id, [(Some("a"), ty)]).expect("it is one")
    }

    #[test]
    fn a_stream_has_one_layout_and_any_number_of_takers() {
        let mut streams = Streams::default();
        let (one, two) = (taker("one"), taker("two"));
        streams
            .add(layout("s", Type::Int), one.clone())
            .expect("it is new");
        streams
            .add(layout("s:1.0.0", Type::Int), two.clone())
            .expect("it is the same");
        let other = streams.add(layout("s", Type::Long), taker("three"));
        let said = other.expect_err("it is another");
        assert!(
            said.contains("app 'one', whose payloadData has 'a int' where the other has 'a long'"),
            "{said}"
        );
        streams.remove("s:1.0.0", &one.ingress);
        assert_eq!(
            streams.get("s:1.0.0").map(|stream| stream.takers.len()),
            Some(1)
        );
        streams.remove("s:1.0.0", &two.ingress);
        assert!(streams.is_empty());
    }

    #[test]
    fn what_nobody_takes_is_kept_by_the_nearest() {
        let mut streams = Streams::default();
        for id in ["b:1", "a:1", "b:2"] {
            streams
                .add(layout(id, Type::Int), taker(id))
                .expect("it is new");
        }
        let keeper = |id| streams.keeper(id).map(|taker| taker.app.as_str());
        assert_eq!(keeper("b:7"), Some("b:1"));
        assert_eq!(keeper("c:1"), Some("a:1"));
        assert_eq!(streams.said(), "there are a:1, b:1, b:2");
        assert_eq!(streams.numbered("b:1").map(|(number, _)| number), Some(1));
    }
}
