//! The codecs of record batches.
//!
//! Promises: what is unpacked is never longer than the caller allows, however the bytes claim to be long.

use std::io::{self, Read, Write};

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

    /// As properties name it.
    pub fn named(name: &str) -> Option<Codec> {
        Some(match name {
            "none" => Codec::None,
            "gzip" => Codec::Gzip,
            "snappy" => Codec::Snappy,
            "lz4" => Codec::Lz4,
            "zstd" => Codec::Zstd,
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

/// How a writer packs its batches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Packer {
    codec: Codec,
    /// The codec's own where there is none.
    level: Option<u32>,
}

impl Packer {
    pub fn new(codec: Codec, level: Option<i32>) -> Packer {
        let level = level.and_then(|level| u32::try_from(level).ok());
        Packer { codec, level }
    }

    pub fn is_none(self) -> bool {
        self.codec == Codec::None
    }

    /// What a batch says of its codec.
    pub fn attributes(self) -> i16 {
        self.codec as i16
    }

    /// Appends the packed bytes, as librdkafka packs them: Snappy without the streams of Java, LZ4 in
    /// frames of blocks that do not refer to each other.
    ///
    /// # Errors
    /// The codec's library cannot.
    pub fn pack(self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        match self.codec {
            Codec::None => out.extend_from_slice(plain),
            Codec::Gzip => {
                let level = self
                    .level
                    .map_or_else(flate2::Compression::default, |level| {
                        flate2::Compression::new(level.min(9))
                    });
                let mut encoder = flate2::write::GzEncoder::new(out, level);
                encoder.write_all(plain).map_err(said)?;
                encoder.finish().map_err(said)?;
            }
            Codec::Snappy => {
                let start = out.len();
                out.resize(start + snap::raw::max_compress_len(plain.len()), 0);
                let mut encoder = snap::raw::Encoder::new();
                let packed = encoder.compress(plain, &mut out[start..]);
                let packed = packed.map_err(|error| error.to_string())?;
                out.truncate(start + packed);
            }
            Codec::Lz4 => {
                let info = lz4_flex::frame::FrameInfo::new()
                    .block_mode(lz4_flex::frame::BlockMode::Independent)
                    .block_size(lz4_flex::frame::BlockSize::Max64KB);
                let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, out);
                encoder.write_all(plain).map_err(said)?;
                encoder.finish().map_err(|error| error.to_string())?;
            }
            Codec::Zstd => {
                let level = self.level.map_or(zstd::DEFAULT_COMPRESSION_LEVEL, |level| {
                    i32::try_from(level).unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL)
                });
                let mut encoder = zstd::Encoder::new(out, level).map_err(said)?;
                encoder.write_all(plain).map_err(said)?;
                encoder.finish().map_err(said)?;
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
    use super::*;

    fn packed(codec: Codec, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let packer = Packer::new(codec, None);
        packer.pack(text, &mut out).expect("memory");
        out
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
