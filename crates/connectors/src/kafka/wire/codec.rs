//! The codecs of record batches.
//!
//! Promises: what is unpacked is never longer than the caller allows, however the bytes claim to be long.

use std::io::{self, Read};

/// A batch says in three bits how it is packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Codec {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

/// What Java's Snappy streams begin with; behind it stand two numbers, then blocks with their lengths.
const XERIAL: &[u8] = b"\x82SNAPPY\0";

/// What a hostile batch would unpack to.
const TOO_LONG: &str = "it unpacks to more than a batch may have";

impl Codec {
    pub fn of_attributes(attributes: i16) -> Option<Codec> {
        Some(match attributes & 7 {
            0 => Codec::None,
            1 => Codec::Gzip,
            2 => Codec::Snappy,
            3 => Codec::Lz4,
            4 => Codec::Zstd,
            _ => return None,
        })
    }

    /// Unpacks into `out`, which is emptied first.
    ///
    /// # Errors
    /// Why it cannot be unpacked, or that it would be longer than `max` bytes.
    pub fn unpack(self, packed: &[u8], max: usize, out: &mut Vec<u8>) -> Result<(), String> {
        out.clear();
        match self {
            Codec::None => out.extend_from_slice(packed),
            Codec::Gzip => read(flate2::read::MultiGzDecoder::new(packed), max, out)?,
            Codec::Snappy => snappy(packed, max, out)?,
            Codec::Lz4 => read(lz4_flex::frame::FrameDecoder::new(packed), max, out)?,
            Codec::Zstd => {
                let decoder = zstd::Decoder::with_buffer(packed).map_err(said)?;
                read(decoder, max, out)?;
            }
        }
        Ok(())
    }
}

fn said(error: io::Error) -> String {
    error.to_string()
}

fn read(decoder: impl Read, max: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let mut bounded = decoder.take(max as u64 + 1);
    bounded.read_to_end(out).map_err(said)?;
    match out.len() <= max {
        true => Ok(()),
        false => Err(TOO_LONG.to_owned()),
    }
}

fn snappy(packed: &[u8], max: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let Some(stream) = packed.strip_prefix(XERIAL) else {
        return snappy_block(packed, max, out);
    };
    let mut rest = stream.get(8..).unwrap_or_default();
    while !rest.is_empty() {
        let (length, behind) = rest.split_first_chunk::<4>().ok_or("a block ends early")?;
        let length = u32::from_be_bytes(*length) as usize;
        let (block, behind) = behind
            .split_at_checked(length)
            .ok_or("a block ends early")?;
        snappy_block(block, max, out)?;
        rest = behind;
    }
    Ok(())
}

fn snappy_block(block: &[u8], max: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let length = snap::raw::decompress_len(block).map_err(|error| error.to_string())?;
    let start = out.len();
    if length > max - start.min(max) {
        return Err(TOO_LONG.to_owned());
    }
    out.resize(start + length, 0);
    let mut decoder = snap::raw::Decoder::new();
    let unpacked = decoder.decompress(block, &mut out[start..]);
    unpacked.map(|_| ()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn packed(codec: Codec, text: &[u8]) -> Vec<u8> {
        match codec {
            Codec::None => text.to_vec(),
            Codec::Gzip => {
                let mut encoder =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(text).expect("memory");
                encoder.finish().expect("memory")
            }
            Codec::Snappy => snap::raw::Encoder::new()
                .compress_vec(text)
                .expect("memory"),
            Codec::Lz4 => {
                let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
                encoder.write_all(text).expect("memory");
                encoder.finish().expect("memory")
            }
            Codec::Zstd => zstd::encode_all(text, 1).expect("memory"),
        }
    }

    #[test]
    fn what_is_packed_is_unpacked_and_no_further_than_allowed() {
        let text = b"chocolate cake, ".repeat(1000);
        let codecs = [
            Codec::None,
            Codec::Gzip,
            Codec::Snappy,
            Codec::Lz4,
            Codec::Zstd,
        ];
        let mut out = vec![1, 2, 3];
        for (number, codec) in codecs.into_iter().enumerate() {
            assert_eq!(Codec::of_attributes(number as i16 | 0x10), Some(codec));
            let packed = packed(codec, &text);
            codec
                .unpack(&packed, text.len(), &mut out)
                .expect("it is sound");
            assert_eq!(out, text, "{codec:?}");
            if codec == Codec::None {
                continue;
            }
            assert_eq!(
                codec.unpack(&packed, text.len() - 1, &mut out),
                Err(TOO_LONG.to_owned())
            );
            let cut = &packed[..packed.len() / 2];
            assert!(
                codec.unpack(cut, text.len(), &mut out).is_err(),
                "{codec:?}"
            );
        }
        assert_eq!(Codec::of_attributes(5), None);
    }

    #[test]
    fn the_snappy_streams_of_java_are_unpacked() {
        let mut stream = XERIAL.to_vec();
        stream.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1]);
        for part in [&b"one"[..], b"two"] {
            let block = packed(Codec::Snappy, part);
            stream.extend_from_slice(&(block.len() as u32).to_be_bytes());
            stream.extend_from_slice(&block);
        }
        let mut out = Vec::new();
        Codec::Snappy
            .unpack(&stream, 6, &mut out)
            .expect("it is sound");
        assert_eq!(out, b"onetwo");
        assert!(Codec::Snappy.unpack(&stream, 5, &mut out).is_err());
        assert!(
            Codec::Snappy
                .unpack(&stream[..stream.len() - 1], 6, &mut out)
                .is_err()
        );
    }
}
