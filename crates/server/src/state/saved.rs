//! What a snapshot holds: the apps, the positions of the sources, and what functions have requested.

use std::io::{self, BufRead, Read};
use std::ops::Range;

use event::codec::{Error as CodecError, Reader, Writer};

use connect::effect::PendingEffect;

use crate::source::Position;

/// The first byte of what a snapshot holds.
pub(crate) const VERSION: u8 = 3;

/// Bytes of the name of an app when snapshots are compacted.
const NAME_MAX: u64 = 1 << 20;

/// Puts snapshots of changes over the whole one before them, oldest first.
pub(crate) fn compose<R: BufRead>(layers: &mut [R], out: &mut Writer) -> io::Result<()> {
    let mut positions = Vec::new();
    let mut apps = None;
    for layer in layers.iter_mut() {
        let [version] = array(layer)?;
        if version != VERSION {
            return Err(unfit("a snapshot of another version"));
        }
        // The newest ones count.
        positions = bytes(layer, u64::MAX)?;
        let own = u64::from_le_bytes(array(layer)?);
        if apps.is_some_and(|apps| apps != own) {
            return Err(unfit("snapshots of other apps"));
        }
        apps = Some(own);
    }
    out.u8(VERSION);
    out.blob(&positions);
    out.u64(apps.unwrap_or(0));
    for _ in 0..apps.unwrap_or(0) {
        let mut name = None;
        for layer in layers.iter_mut() {
            let own = bytes(layer, NAME_MAX)?;
            if name.as_ref().is_some_and(|name| *name != own) {
                return Err(unfit("snapshots of other apps"));
            }
            name = Some(own);
        }
        out.blob(&name.unwrap_or_default());
        engine::compose(layers, out)?;
    }
    Ok(())
}

fn unfit(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn array<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut array = [0; N];
    from.read_exact(&mut array)?;
    Ok(array)
}

/// Bytes with their length in front of them.
fn bytes(from: &mut impl Read, most: u64) -> io::Result<Vec<u8>> {
    let length = u64::from_le_bytes(array(from)?);
    if length > most {
        return Err(unfit("too long a name"));
    }
    let mut bytes = Vec::new();
    let read = from.take(length).read_to_end(&mut bytes)?;
    match read as u64 == length {
        true => Ok(bytes),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A snapshot taken apart.
#[derive(Default)]
pub(crate) struct Saved {
    /// Length of the log of rejected events.
    pub rejected: u64,
    /// Name of each app, and where its state lies.
    apps: Vec<(String, Range<usize>)>,
    bytes: Vec<u8>,
    /// App, key and position of each source.
    pub positions: Vec<(String, String, Option<Position>)>,
    pub effects: Vec<PendingEffect>,
}

impl Saved {
    /// Bytes that [`Saved::rejected_in`] is asked with.
    pub const HEAD_LEN: usize = 17;

    /// Length of the log of rejected events, from the first bytes of what was saved.
    pub fn rejected_in(head: &[u8; Saved::HEAD_LEN]) -> Option<u64> {
        let mut reader = Reader::new(head);
        let is_saved = reader.u8().is_ok_and(|mark| mark == VERSION);
        // The length of the section that it begins is in front of it.
        let number = reader.u64().and_then(|_| reader.u64());
        number.ok().filter(|_| is_saved)
    }

    /// Name and state of each app.
    pub fn apps(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let apps = self.apps.iter();
        apps.map(|(name, range)| (name.as_str(), &self.bytes[range.clone()]))
    }

    /// What it holds of some apps, as their state without logs and effects.
    pub fn part(&self, is_requested: impl Fn(&str) -> bool) -> Saved {
        let mut part = Saved::default();
        for (name, bytes) in self.apps().filter(|(name, _)| is_requested(name)) {
            part.put_app(name, bytes);
        }
        let positions = self.positions.iter();
        let wanted = positions.filter(|(app, ..)| is_requested(app));
        part.positions.extend(wanted.cloned());
        part
    }

    /// Takes in what another holds, of other apps.
    pub fn join(&mut self, other: Saved) {
        for (name, bytes) in other.apps() {
            self.put_app(name, bytes);
        }
        self.positions.extend(other.positions);
    }

    /// This with what another holds of its apps instead; logs and effects stay what they are.
    pub fn with(self, other: Saved) -> Saved {
        let is_kept = |name: &str| other.apps().all(|(own, _)| own != name);
        let mut all = self.part(is_kept);
        (all.rejected, all.effects) = (self.rejected, self.effects);
        all.join(other);
        all
    }

    fn put_app(&mut self, name: &str, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.apps.push((name.to_owned(), start..self.bytes.len()));
    }

    pub fn read(bytes: Vec<u8>) -> Result<Saved, CodecError> {
        let mut saved = Saved::taken_apart(&bytes)?;
        saved.bytes = bytes;
        Ok(saved)
    }

    fn taken_apart(bytes: &[u8]) -> Result<Saved, CodecError> {
        let mut reader = Reader::new(bytes);
        let mark = reader.u8()?;
        if mark != VERSION {
            return Err(CodecError::Mark { mark, at: 0 });
        }
        let mut saved = Saved::default();
        saved.read_positions(&mut reader.section()?)?;
        for _ in 0..reader.count()? {
            let name = reader.str()?.to_owned();
            let start = reader.position();
            let length = engine::state_len(&bytes[start..]);
            let length = length.map_err(|e| CodecError::Mismatch(e.to_string()))?;
            reader.raw(length as u128)?;
            saved.apps.push((name, start..start + length));
        }
        Ok(saved)
    }

    fn read_positions(&mut self, reader: &mut Reader<'_>) -> Result<(), CodecError> {
        self.rejected = reader.u64()?;
        for _ in 0..reader.count()? {
            let (app, key) = (reader.str()?.to_owned(), reader.str()?.to_owned());
            let position = if reader.bool()? {
                Some(Position {
                    source: reader.blob()?.to_vec(),
                    mapper: reader.blob()?.to_vec(),
                })
            } else {
                None
            };
            self.positions.push((app, key, position));
        }
        for _ in 0..reader.count()? {
            let (app, function) = (reader.str()?.to_owned(), reader.str()?.to_owned());
            let count = reader.count()?;
            let arguments = (0..count)
                .map(|_| reader.value())
                .collect::<Result<_, _>>()?;
            self.effects.push(PendingEffect {
                app,
                function,
                arguments,
            });
        }
        Ok(())
    }
}
