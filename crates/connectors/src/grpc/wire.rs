//! What goes over the wire: bytes as they are, and the message of Siddhi's own service.

use std::collections::BTreeMap;

use bytes::{Buf as _, BufMut as _, Bytes};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// `Event` of `org.wso2.grpc.eventservice`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct Event {
    #[prost(string, tag = "1")]
    pub payload: String,
    #[prost(btree_map = "string, string", tag = "2")]
    pub headers: BTreeMap<String, String>,
}

/// Messages are bytes to the transport.
#[derive(Clone, Copy, Default)]
pub(super) struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message as _;

    #[test]
    fn an_event_is_encoded_as_its_description_says() {
        let event = Event {
            payload: "é".to_owned(),
            headers: BTreeMap::from([("k".to_owned(), "v".to_owned())]),
        };
        let bytes = event.encode_to_vec();
        assert_eq!(bytes, b"\x0a\x02\xc3\xa9\x12\x06\x0a\x01k\x12\x01v");
        assert_eq!(Event::decode(bytes.as_slice()).ok(), Some(event));
    }
}
