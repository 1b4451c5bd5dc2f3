//! The requests that a reader of partitions sends, and the responses to them; what a writer sends
//! besides is in [`super::produce`].
//!
//! Only versions without tagged fields are spoken, which every broker from 0.11 to 4.x has: Fetch 4 to
//! 11, ListOffsets 1 to 5, Metadata 1 to 8, SaslHandshake 1, SaslAuthenticate 0, ApiVersions 0. Promises:
//! a response is decoded whatever its bytes are, and takes no more memory than its own length; records
//! stay where they lie.

use std::collections::HashMap;

use bytes::Bytes;

/// Longest list of brokers, topics, partitions or aborted transactions: what a response cannot hold in its
/// bytes is refused as well.
const ENTRIES_MAX: usize = 1_000_000;

/// Requests by their number in the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(i16)]
pub(super) enum Api {
    Produce = 0,
    Fetch = 1,
    ListOffsets = 2,
    Metadata = 3,
    SaslHandshake = 17,
    Versions = 18,
    InitProducerId = 22,
    SaslAuthenticate = 36,
}

impl Api {
    /// The versions that are spoken here.
    const fn spoken(self) -> (i16, i16) {
        match self {
            Api::Produce => (3, 8),
            Api::Fetch => (4, 11),
            Api::ListOffsets => (1, 5),
            Api::Metadata => (1, 8),
            Api::SaslHandshake => (1, 1),
            Api::InitProducerId => (0, 1),
            Api::Versions | Api::SaslAuthenticate => (0, 0),
        }
    }
}

/// What brokers say by number.
pub(super) mod code {
    pub const NONE: i16 = 0;
    pub const OFFSET_OUT_OF_RANGE: i16 = 1;
    pub const CORRUPT_MESSAGE: i16 = 2;
    pub const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
    pub const LEADER_NOT_AVAILABLE: i16 = 5;
    pub const NOT_LEADER: i16 = 6;
    pub const REQUEST_TIMED_OUT: i16 = 7;
    pub const REPLICA_NOT_AVAILABLE: i16 = 9;
    pub const MESSAGE_TOO_LARGE: i16 = 10;
    pub const NETWORK: i16 = 13;
    pub const INVALID_TOPIC: i16 = 17;
    pub const RECORD_LIST_TOO_LARGE: i16 = 18;
    pub const NOT_ENOUGH_REPLICAS: i16 = 19;
    pub const NOT_ENOUGH_REPLICAS_AFTER_APPEND: i16 = 20;
    pub const TOPIC_AUTHORIZATION_FAILED: i16 = 29;
    pub const CLUSTER_AUTHORIZATION_FAILED: i16 = 31;
    pub const OUT_OF_ORDER_SEQUENCE: i16 = 45;
    pub const DUPLICATE_SEQUENCE: i16 = 46;
    pub const INVALID_PRODUCER_EPOCH: i16 = 47;
    pub const STORAGE: i16 = 56;
    pub const UNKNOWN_PRODUCER_ID: i16 = 59;
    pub const FETCH_SESSION_ID_NOT_FOUND: i16 = 70;
    pub const INVALID_FETCH_SESSION_EPOCH: i16 = 71;
    pub const FENCED_LEADER_EPOCH: i16 = 74;
    pub const UNKNOWN_LEADER_EPOCH: i16 = 75;
    pub const OFFSET_NOT_AVAILABLE: i16 = 78;
    pub const INVALID_RECORD: i16 = 87;
}

/// A number in words, as brokers document it.
pub(super) fn said(number: i16) -> String {
    let text = match number {
        -1 => "the broker had an unexpected error",
        code::OFFSET_OUT_OF_RANGE => "the offset is out of range",
        code::CORRUPT_MESSAGE => "the broker found a record that is corrupt",
        code::UNKNOWN_TOPIC_OR_PARTITION => "the topic or partition does not exist",
        code::LEADER_NOT_AVAILABLE => "the partition has no leader now",
        code::NOT_LEADER => "the broker is not the leader of the partition",
        code::REQUEST_TIMED_OUT => "the broker's request timed out",
        code::REPLICA_NOT_AVAILABLE => "the replica is not available",
        code::MESSAGE_TOO_LARGE | code::RECORD_LIST_TOO_LARGE => {
            "the broker takes no record that long"
        }
        code::INVALID_TOPIC => "the topic has a name that it cannot have",
        code::NOT_ENOUGH_REPLICAS | code::NOT_ENOUGH_REPLICAS_AFTER_APPEND => {
            "fewer replicas are in sync than min.insync.replicas asks for"
        }
        code::TOPIC_AUTHORIZATION_FAILED => "not authorized for the topic",
        code::CLUSTER_AUTHORIZATION_FAILED => "not authorized for the cluster",
        33 => "the broker does not know the SASL mechanism",
        34 => "the broker is in another state of the login",
        35 => "the broker does not speak this version of the protocol",
        32 => "the broker does not take the time of a record",
        43 | 76 => "the topic or the broker does not take this codec or format",
        code::OUT_OF_ORDER_SEQUENCE => "records before these are missing at the broker",
        code::UNKNOWN_PRODUCER_ID => "the broker does not know the producer any more",
        code::STORAGE => "the broker cannot read its disk",
        58 => "the broker refused the login",
        code::FENCED_LEADER_EPOCH | code::UNKNOWN_LEADER_EPOCH => "the leader has changed",
        code::INVALID_RECORD => "the broker found a record that the topic does not take",
        code::OFFSET_NOT_AVAILABLE => "the leader does not know the end of the partition yet",
        _ => return format!("the broker answered with error {number}"),
    };
    text.to_owned()
}

/// Why a response cannot be read.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Malformed(pub &'static str);

/// Versions that a broker and this client have in common.
#[derive(Clone, Default, Debug)]
pub(super) struct Versions(HashMap<i16, (i16, i16)>);

impl Versions {
    pub fn decode(body: &[u8]) -> Result<Versions, Malformed> {
        let mut input = Input(body);
        let error = input.i16()?;
        if error != code::NONE {
            return Err(Malformed("the broker does not tell the versions it speaks"));
        }
        let mut versions = HashMap::new();
        for _ in 0..input.count(6)? {
            let (api, least, most) = (input.i16()?, input.i16()?, input.i16()?);
            versions.insert(api, (least, most));
        }
        Ok(Versions(versions))
    }

    /// The newest that both speak.
    pub fn of(&self, api: Api) -> Result<i16, Malformed> {
        let (least, most) = api.spoken();
        let (from, to) = self.0.get(&(api as i16)).copied().unwrap_or((0, -1));
        let version = most.min(to);
        match version >= least.max(from) {
            true => Ok(version),
            false => Err(Malformed(
                "the broker speaks no version of the protocol that is spoken here",
            )),
        }
    }
}

// ---- requests ----

/// Header of a request, behind the room for its length.
pub(super) fn begin(api: Api, version: i16, correlation: i32, client: &str) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.extend_from_slice(&(api as i16).to_be_bytes());
    out.extend_from_slice(&version.to_be_bytes());
    out.extend_from_slice(&correlation.to_be_bytes());
    put_text(&mut out, client);
    out
}

/// Fills in the length of a request that is complete.
pub(super) fn end(out: &mut [u8]) {
    let length = (out.len() - 4) as u32;
    out[..4].copy_from_slice(&length.to_be_bytes());
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    // Names are no longer in the protocol, and longer ones are refused by every broker.
    let text = &text.as_bytes()[..text.len().min(i16::MAX as usize)];
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text);
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_count(out, bytes.len());
    out.extend_from_slice(bytes);
}

pub(super) fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u32).to_be_bytes());
}

/// Asks for brokers, and for the leaders of topics; `makes_topics` where they are not there.
pub(super) fn metadata(out: &mut Vec<u8>, version: i16, topics: &[&str], makes_topics: bool) {
    put_count(out, topics.len());
    for topic in topics {
        put_text(out, topic);
    }
    if version >= 4 {
        out.push(u8::from(makes_topics)); // allow_auto_topic_creation
    }
    if version >= 8 {
        out.extend_from_slice(&[0, 0]); // include_…_authorized_operations
    }
}

/// One partition that is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish<'a> {
    pub topic: &'a str,
    pub partition: i32,
    /// The offset that is read next, or for [`list_offsets`] the time that one is wanted for.
    pub at: i64,
    /// Of the leader, as the metadata said; -1 where it is not known.
    pub epoch: i32,
}

/// What bounds a fetch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub wait_millis: i32,
    pub bytes_min: i32,
    pub bytes_max: i32,
    pub partition_bytes_max: i32,
    pub is_committed: bool,
}

/// Calls with the wishes of one topic after the other; those of a topic follow each other.
fn by_topic<'a>(
    out: &mut Vec<u8>,
    wishes: &[Wish<'a>],
    mut put: impl FnMut(&mut Vec<u8>, &Wish<'a>),
) {
    let groups = || wishes.chunk_by(|a, b| a.topic == b.topic);
    put_count(out, groups().count());
    for group in groups() {
        put_text(out, group[0].topic);
        put_count(out, group.len());
        for wish in group {
            put(out, wish);
        }
    }
}

/// A fetch session of a broker (KIP-227): it remembers what it was asked for, so that a request names only
/// what has changed, and a response only partitions that have something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Session {
    /// 0: the request, which names everything, asks for one.
    pub id: i32,
    pub epoch: i32,
}

impl Session {
    pub const NEW: Session = Session { id: 0, epoch: 0 };

    /// That of the request behind one that was answered by this id.
    pub fn next(self, id: i32) -> Session {
        match id {
            // The broker has no room for one.
            0 => Session::NEW,
            id => Session {
                id,
                epoch: self.epoch.checked_add(1).unwrap_or(1),
            },
        }
    }

    pub fn is_new(self) -> bool {
        self.epoch == 0
    }
}

pub(super) fn fetch(
    out: &mut Vec<u8>,
    version: i16,
    bounds: Bounds,
    session: Session,
    wishes: &[Wish<'_>],
) {
    out.extend_from_slice(&(-1i32).to_be_bytes()); // replica_id: a consumer
    for number in [bounds.wait_millis, bounds.bytes_min, bounds.bytes_max] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.push(u8::from(bounds.is_committed));
    if version >= 7 {
        out.extend_from_slice(&session.id.to_be_bytes());
        out.extend_from_slice(&session.epoch.to_be_bytes());
    }
    by_topic(out, wishes, |out, wish| {
        out.extend_from_slice(&wish.partition.to_be_bytes());
        if version >= 9 {
            out.extend_from_slice(&wish.epoch.to_be_bytes());
        }
        out.extend_from_slice(&wish.at.to_be_bytes());
        if version >= 5 {
            out.extend_from_slice(&(-1i64).to_be_bytes()); // log_start_offset: of followers
        }
        out.extend_from_slice(&bounds.partition_bytes_max.to_be_bytes());
    });
    if version >= 7 {
        put_count(out, 0); // forgotten_topics_data
    }
    if version >= 11 {
        put_text(out, ""); // rack_id
    }
}

pub(super) fn list_offsets(
    out: &mut Vec<u8>,
    version: i16,
    is_committed: bool,
    wishes: &[Wish<'_>],
) {
    out.extend_from_slice(&(-1i32).to_be_bytes());
    if version >= 2 {
        out.push(u8::from(is_committed));
    }
    by_topic(out, wishes, |out, wish| {
        out.extend_from_slice(&wish.partition.to_be_bytes());
        if version >= 4 {
            out.extend_from_slice(&wish.epoch.to_be_bytes());
        }
        out.extend_from_slice(&wish.at.to_be_bytes());
    });
}

// ---- responses ----

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Broker {
    pub id: i32,
    pub host: String,
    pub port: u16,
}

#[derive(Debug)]
pub(super) struct Leader {
    pub topic: String,
    pub partition: i32,
    pub error: i16,
    /// The broker's number, -1 where there is none.
    pub leader: i32,
    pub epoch: i32,
}

#[derive(Debug)]
pub(super) struct Metadata {
    pub brokers: Vec<Broker>,
    pub leaders: Vec<Leader>,
    /// Topics that the broker says no to, and how.
    pub refused: Vec<(String, i16)>,
}

impl Metadata {
    pub fn decode(body: &[u8], version: i16) -> Result<Metadata, Malformed> {
        let mut input = Input(body);
        if version >= 3 {
            input.i32()?;
        }
        let mut brokers = Vec::new();
        for _ in 0..input.count(12)? {
            let id = input.i32()?;
            let host = input.text()?.to_owned();
            let port =
                u16::try_from(input.i32()?).map_err(|_| Malformed("a port is out of range"))?;
            input.optional_text()?; // rack
            brokers.push(Broker { id, host, port });
        }
        if version >= 2 {
            input.optional_text()?; // cluster_id
        }
        input.i32()?; // controller_id
        let (mut leaders, mut refused) = (Vec::new(), Vec::new());
        for _ in 0..input.count(9)? {
            let error = input.i16()?;
            let topic = input.text()?.to_owned();
            input.take(1)?; // is_internal
            for _ in 0..input.count(18)? {
                let error = input.i16()?;
                let partition = input.i32()?;
                let leader = input.i32()?;
                let epoch = if version >= 7 { input.i32()? } else { -1 };
                let lists = if version >= 5 { 3 } else { 2 };
                for _ in 0..lists {
                    let count = input.count(4)?;
                    input.take(count * 4)?;
                }
                leaders.push(Leader {
                    topic: topic.clone(),
                    partition,
                    error,
                    leader,
                    epoch,
                });
            }
            if version >= 8 {
                input.i32()?;
            }
            if error != code::NONE {
                refused.push((topic, error));
            }
        }
        Ok(Metadata {
            brokers,
            leaders,
            refused,
        })
    }
}

/// Where a partition begins or ends.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Listed {
    pub topic: String,
    pub partition: i32,
    pub error: i16,
    pub offset: i64,
}

pub(super) fn listed(body: &[u8], version: i16) -> Result<Vec<Listed>, Malformed> {
    let mut input = Input(body);
    if version >= 2 {
        input.i32()?;
    }
    let mut all = Vec::new();
    for _ in 0..input.count(6)? {
        let topic = input.text()?.to_owned();
        for _ in 0..input.count(22)? {
            let (partition, error) = (input.i32()?, input.i16()?);
            input.i64()?; // timestamp
            let offset = input.i64()?;
            if version >= 4 {
                input.i32()?;
            }
            all.push(Listed {
                topic: topic.clone(),
                partition,
                error,
                offset,
            });
        }
    }
    Ok(all)
}

/// What a fetch brought of one partition.
#[derive(Debug)]
pub(super) struct Fetched {
    pub topic: String,
    pub partition: i32,
    pub error: i16,
    /// Behind the last record that readers may see; with `read_committed` behind the last that is decided.
    pub end: i64,
    /// Producers whose transactions were aborted, and where these begin.
    pub aborted: Vec<(i64, i64)>,
    /// Record batches, the last of which may be cut off.
    pub records: Bytes,
}

/// The answer to a fetch.
#[derive(Debug)]
pub(super) enum FetchAnswer {
    /// Of the session with this id; 0 where there is none.
    Parts(i32, Vec<Fetched>),
    /// The broker knows the session no more.
    NoSession,
}

pub(super) fn fetched(
    body: &Bytes,
    version: i16,
    is_committed: bool,
) -> Result<FetchAnswer, Malformed> {
    let mut input = Input(body);
    input.i32()?; // throttle_time_ms
    let mut session = 0;
    if version >= 7 {
        match input.i16()? {
            code::NONE => {}
            code::FETCH_SESSION_ID_NOT_FOUND | code::INVALID_FETCH_SESSION_EPOCH => {
                return Ok(FetchAnswer::NoSession);
            }
            _ => return Err(Malformed("the broker refused the fetch as a whole")),
        }
        session = input.i32()?;
    }
    let mut all = Vec::new();
    for _ in 0..input.count(6)? {
        let topic = input.text()?.to_owned();
        for _ in 0..input.count(26)? {
            let (partition, error) = (input.i32()?, input.i16()?);
            let (high, stable) = (input.i64()?, input.i64()?);
            if version >= 5 {
                input.i64()?; // log_start_offset
            }
            let mut aborted = Vec::new();
            for _ in 0..input.optional_count(16)? {
                aborted.push((input.i64()?, input.i64()?));
            }
            if version >= 11 {
                input.i32()?; // preferred_read_replica
            }
            let records = match input.i32()? {
                -1 => &[],
                length => input.take(usize::try_from(length).map_err(|_| NEGATIVE)?)?,
            };
            all.push(Fetched {
                topic: topic.clone(),
                partition,
                error,
                end: if is_committed { stable } else { high },
                aborted,
                records: body.slice_ref(records),
            });
        }
    }
    Ok(FetchAnswer::Parts(session, all))
}

/// The mechanisms that a broker knows, where it does not know the one that was asked for.
pub(super) fn handshaken(body: &[u8]) -> Result<(), String> {
    let mut input = Input(body);
    let malformed = |Malformed(cause)| cause.to_owned();
    let error = input.i16().map_err(malformed)?;
    if error == code::NONE {
        return Ok(());
    }
    let mut known = Vec::new();
    for _ in 0..input.count(2).map_err(malformed)? {
        known.push(input.text().map_err(malformed)?);
    }
    Err(format!("{}: it knows {}", said(error), known.join(", ")))
}

/// The next words of a login.
pub(super) fn authenticated(body: &[u8]) -> Result<&[u8], String> {
    let mut input = Input(body);
    let malformed = |Malformed(cause)| cause.to_owned();
    let error = input.i16().map_err(malformed)?;
    let message = input.optional_text().map_err(malformed)?;
    if error != code::NONE {
        return Err(message.map_or_else(|| said(error), str::to_owned));
    }
    let length = input.i32().map_err(malformed)?;
    let length = usize::try_from(length).unwrap_or(0);
    input.take(length).map_err(malformed)
}

const SHORT: Malformed = Malformed("a response ends early");
const NEGATIVE: Malformed = Malformed("a response has a negative length");

/// What is left of a response.
pub(super) struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(SHORT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(SHORT)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub fn i16(&mut self) -> Result<i16, Malformed> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    pub fn i32(&mut self) -> Result<i32, Malformed> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub fn i64(&mut self) -> Result<i64, Malformed> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    /// Length of a list whose entries have at least so many bytes.
    pub fn count(&mut self, least: usize) -> Result<usize, Malformed> {
        let count = usize::try_from(self.i32()?).map_err(|_| NEGATIVE)?;
        match count <= ENTRIES_MAX && count.saturating_mul(least) <= self.0.len() {
            true => Ok(count),
            false => Err(SHORT),
        }
    }

    /// As [`Input::count`], of a list that may be missing.
    pub fn optional_count(&mut self, least: usize) -> Result<usize, Malformed> {
        match self.0.get(..4) {
            Some([255, 255, 255, 255]) => self.i32().map(|_| 0),
            _ => self.count(least),
        }
    }

    pub fn optional_text(&mut self) -> Result<Option<&'a str>, Malformed> {
        let length = self.i16()?;
        if length == -1 {
            return Ok(None);
        }
        let bytes = self.take(usize::try_from(length).map_err(|_| NEGATIVE)?)?;
        let text = std::str::from_utf8(bytes).map_err(|_| Malformed("a name is not UTF-8"))?;
        Ok(Some(text))
    }

    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        self.optional_text()?.ok_or(Malformed("a name is missing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_that_both_speak_is_chosen() {
        let mut body = vec![0, 0, 0, 0, 0, 2];
        for number in [1i16, 4, 17, 3, 9, 12] {
            body.extend_from_slice(&number.to_be_bytes());
        }
        let versions = Versions::decode(&body).expect("it is whole");
        assert_eq!(versions.of(Api::Fetch), Ok(11));
        assert!(
            versions.of(Api::Metadata).is_err(),
            "it speaks newer ones alone"
        );
        assert!(versions.of(Api::ListOffsets).is_err());
        for cut in 0..body.len() {
            assert!(Versions::decode(&body[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn a_fetch_is_decoded_in_place_and_lengths_are_bounded() {
        let mut body = vec![0; 4 + 2 + 4];
        body.extend_from_slice(b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x07\0\0");
        for number in [50i64, 40, 0] {
            body.extend_from_slice(&number.to_be_bytes());
        }
        body.extend_from_slice(
            b"\0\0\0\x01\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x1e\xff\xff\xff\xff\0\0\0\x03abc",
        );
        let body = Bytes::from(body);
        for (is_committed, end) in [(true, 40), (false, 50)] {
            let answer = fetched(&body, 11, is_committed).expect("it is whole");
            let FetchAnswer::Parts(0, all) = answer else {
                panic!("{answer:?}");
            };
            let one = &all[0];
            assert_eq!((one.topic.as_str(), one.partition, one.end), ("t", 7, end));
            assert_eq!(
                (&one.records[..], &one.aborted[..]),
                (&b"abc"[..], &[(5, 30)][..])
            );
        }
        for cut in 0..body.len() {
            assert!(fetched(&body.slice(..cut), 11, true).is_err(), "{cut}");
        }
        // Hostile counts take no memory.
        let mut hostile = body.to_vec();
        hostile[10..14].copy_from_slice(&i32::MAX.to_be_bytes());
        assert_eq!(fetched(&Bytes::from(hostile), 11, true).err(), Some(SHORT));
    }

    #[test]
    fn a_session_goes_on_until_the_broker_has_forgotten_it() {
        let session = Session::NEW.next(7);
        assert_eq!(session, Session { id: 7, epoch: 1 });
        assert!(!session.is_new() && session.next(0).is_new());
        let last = Session {
            epoch: i32::MAX,
            ..session
        };
        assert_eq!(last.next(7).epoch, 1);
        for code in [70u8, 71] {
            let body = Bytes::copy_from_slice(&[0, 0, 0, 0, 0, code, 0, 0, 0, 0]);
            let answer = fetched(&body, 11, true);
            assert!(matches!(answer, Ok(FetchAnswer::NoSession)), "{answer:?}");
        }
    }

    #[test]
    fn a_refused_login_says_why() {
        assert_eq!(authenticated(b"\0\0\xff\xff\0\0\0\x02ok"), Ok(&b"ok"[..]));
        assert_eq!(
            authenticated(b"\0\x3a\0\x02no\0\0\0\0"),
            Err("no".to_owned())
        );
        assert!(
            handshaken(b"\0\x21\0\0\0\x01\0\x05PLAIN")
                .unwrap_err()
                .contains("it knows PLAIN")
        );
    }
}
