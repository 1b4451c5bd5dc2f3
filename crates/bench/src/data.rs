//! Generated input: the same bytes for the same size, on every machine.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// A small generator with a fixed start; its numbers are not random, only varied.
pub struct Varied(u64);

impl Varied {
    pub fn new(start: u64) -> Varied {
        Varied(start)
    }

    /// Steele and others' SplitMix64.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// What a generated file holds, to verify a run by.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Facts {
    pub rows: u64,
    pub bytes: u64,
    /// Sum of the amounts in hundredths: exact.
    pub cents: u64,
}

/// Lines of about 20 bytes, `P|0001234|1234.50`, behind a header in the form that the published ETL
/// apps expect (`HDprod-name-date-rows`).
pub fn etl_lines(path: &Path, rows: u64) -> io::Result<Facts> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut varied = Varied(1);
    let mut cents = 0;
    let header = format!("HDprod-orders-2020-01-31-{rows}\n");
    out.write_all(header.as_bytes())?;
    let mut bytes = header.len() as u64;
    for row in 0..rows {
        let amount = varied.draw() % 1_000_000;
        cents += amount;
        let line = format!("P|{:07}|{}.{:02}\n", row, amount / 100, amount % 100);
        bytes += line.len() as u64;
        out.write_all(line.as_bytes())?;
    }
    out.flush()?;
    Ok(Facts { rows, bytes, cents })
}

/// OpenStreetMap-shaped nodes of about 350 bytes, one a line, with six attributes and a few tags.
pub fn osm_nodes(path: &Path, rows: u64) -> io::Result<Facts> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut varied = Varied(2);
    let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<osm version=\"0.6\" generator=\"headwater bench\">\n";
    out.write_all(head.as_bytes())?;
    let mut bytes = head.len() as u64;
    for row in 0..rows {
        let (a, b) = (varied.draw(), varied.draw());
        let line = format!(
            " <node id=\"{}\" lat=\"{}.{:07}\" lon=\"{}.{:07}\" version=\"{}\" timestamp=\"20{:02}-{:02}-{:02}T{:02}:{:02}:{:02}Z\" changeset=\"{}\"><tag k=\"name\" v=\"Node number {row} on the way\"/><tag k=\"highway\" v=\"traffic_signals\"/><tag k=\"crossing\" v=\"zebra\"/><tag k=\"source\" v=\"survey {}\"/></node>\n",
            100_000_000 + row,
            a % 90,
            a % 10_000_000,
            b % 180,
            b % 10_000_000,
            1 + a % 9,
            10 + a % 15,
            1 + b % 12,
            1 + a % 28,
            a % 24,
            b % 60,
            a % 60,
            10_000_000 + b % 90_000_000,
            2000 + b % 26,
        );
        bytes += line.len() as u64;
        out.write_all(line.as_bytes())?;
    }
    out.write_all(b"</osm>\n")?;
    out.flush()?;
    Ok(Facts {
        rows,
        bytes: bytes + 7,
        cents: 0,
    })
}
