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

/// Number and amount in hundredths of each row of [`etl_lines`].
pub fn etl_rows(rows: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut varied = Varied::new(1);
    (0..rows).map(move |row| (row, varied.draw() % 1_000_000))
}

/// Lines of about 20 bytes, `P|0001234|1234.50`, behind a header in the form that the published ETL
/// apps expect (`HDprod-name-date-rows`).
pub fn etl_lines(path: &Path, rows: u64) -> io::Result<Facts> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut cents = 0;
    let header = format!("HDprod-orders-2020-01-31-{rows}\n");
    out.write_all(header.as_bytes())?;
    let mut bytes = header.len() as u64;
    for (row, amount) in etl_rows(rows) {
        cents += amount;
        let line = format!("P|{:07}|{}.{:02}\n", row, amount / 100, amount % 100);
        bytes += line.len() as u64;
        out.write_all(line.as_bytes())?;
    }
    out.flush()?;
    Ok(Facts { rows, bytes, cents })
}

/// A purchase order of about 300 bytes, as the published apps have them.
#[derive(Clone, PartialEq, Debug)]
pub struct Order {
    pub id: String,
    pub items: u64,
    pub cents: u64,
    pub status: &'static str,
    pub address: String,
}

impl Order {
    /// Its columns between `separator`s.
    pub fn joined(&self, separator: char) -> String {
        let Order {
            id,
            items,
            cents,
            status,
            address,
        } = self;
        format!(
            "{id}{separator}{items}{separator}{}.{:02}{separator}{status}{separator}{address}",
            cents / 100,
            cents % 100
        )
    }
}

/// Orders by ascending number; two of three are paid or cash on delivery.
pub fn orders(rows: u64) -> impl Iterator<Item = Order> {
    const STATES: [&str; 3] = ["cod", "paid", "pending"];
    let mut varied = Varied::new(3);
    (0..rows).map(move |row| {
        let (a, b) = (varied.draw(), varied.draw());
        Order {
            id: format!("ORD-{row:09}"),
            items: 1 + a % 99,
            cents: a / 99 % 1_000_000,
            status: STATES[(b % 3) as usize],
            // Not all of it is ASCII.
            address: format!(
                "{} Küstenstraße {:>16x}; {:0>205}",
                b % 1000,
                b,
                a ^ b.rotate_left(17)
            ),
        }
    })
}

/// Orders as CSV without a header.
pub fn order_lines(path: &Path, rows: u64) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    for order in orders(rows) {
        out.write_all(order.joined(',').as_bytes())?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// What apps read of a node.
pub struct Node {
    pub id: u64,
    pub lat: String,
    pub lon: String,
    pub version: u64,
    pub timestamp: String,
    pub changeset: u64,
    survey: u64,
}

pub fn nodes(rows: u64) -> impl Iterator<Item = Node> {
    let mut varied = Varied(2);
    (0..rows).map(move |row| {
        let (a, b) = (varied.draw(), varied.draw());
        Node {
            id: 100_000_000 + row,
            lat: format!("{}.{:07}", a % 90, a % 10_000_000),
            lon: format!("{}.{:07}", b % 180, b % 10_000_000),
            version: 1 + a % 9,
            timestamp: format!(
                "20{:02}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
                10 + a % 15,
                1 + b % 12,
                1 + a % 28,
                a % 24,
                b % 60,
                a % 60
            ),
            changeset: 10_000_000 + b % 90_000_000,
            survey: 2000 + b % 26,
        }
    })
}

/// OpenStreetMap-shaped nodes of about 350 bytes, one a line, with six attributes and a few tags.
pub fn osm_nodes(path: &Path, rows: u64) -> io::Result<Facts> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<osm version=\"0.6\" generator=\"headwater bench\">\n";
    out.write_all(head.as_bytes())?;
    let mut bytes = head.len() as u64;
    for (row, node) in nodes(rows).enumerate() {
        let line = format!(
            " <node id=\"{}\" lat=\"{}\" lon=\"{}\" version=\"{}\" timestamp=\"{}\" changeset=\"{}\"><tag k=\"name\" v=\"Node number {row} on the way\"/><tag k=\"highway\" v=\"traffic_signals\"/><tag k=\"crossing\" v=\"zebra\"/><tag k=\"source\" v=\"survey {}\"/></node>\n",
            node.id, node.lat, node.lon, node.version, node.timestamp, node.changeset, node.survey,
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
