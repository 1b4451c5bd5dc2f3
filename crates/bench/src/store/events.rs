//! Events by number: the same ones in every run, as values of bundles, with what they come to.

use databridge::bundle::Writer;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::text;

/// The time of the first event, in milliseconds: 2026-01-01 UTC.
pub(super) const BEGIN: i64 = 1_767_225_600_000;

const DAY: i64 = 86_400_000;

/// Days over which the events of a run lie.
pub(super) const DAYS: i64 = 10;

/// What the store must say of all events.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Totals {
    pub count: u64,
    /// Sums of the columns that [`Kind::sums`] names.
    pub sums: [i64; 2],
}

impl Totals {
    pub fn add(&mut self, other: Totals) {
        self.count += other.count;
        for (sum, more) in self.sums.iter_mut().zip(other.sums) {
            *sum += more;
        }
    }
}

/// What events are of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Readings of meters, as DAS's sample makes them.
    SmartHome,
    /// Steps of processes, each with an id of its own, some 180 bytes.
    Process,
    /// Articles of an encyclopedia, 3.5 kB in the mean.
    Wiki,
}

/// City and state.
const CITIES: [(&str, &str); 10] = [
    ("New York", "New York"),
    ("Los Angeles", "California"),
    ("Chicago", "Illinois"),
    ("Dallas", "Texas"),
    ("Miami", "Florida"),
    ("Salt Lake City", "Utah"),
    ("Seattle", "Washington"),
    ("Phoenix", "Arizona"),
    ("San Francisco", "California"),
    ("Indianapolis", "Indiana"),
];

const STATUSES: [&str; 4] = ["started", "waiting", "completed", "failed"];

impl Kind {
    pub fn stream(self) -> &'static str {
        match self {
            Kind::SmartHome => "org.wso2.das.sample.smart.home.data:1.0.0",
            Kind::Process => "org.headwater.bench.process:1.0.0",
            Kind::Wiki => "org.wso2.das.sample.wikipedia.data:1.0.0",
        }
    }

    /// The table in the store.
    pub fn table(self) -> &'static str {
        match self {
            Kind::SmartHome => "smart_home",
            Kind::Process => "process",
            Kind::Wiki => "wiki",
        }
    }

    /// Events of a bundle.
    pub fn bundle(self) -> u64 {
        match self {
            Kind::SmartHome | Kind::Process => 2000,
            Kind::Wiki => 200,
        }
    }

    pub fn attributes(self) -> &'static str {
        match self {
            Kind::Wiki => {
                "sha1 string, title string, revision_ts long, contributor_username string, contributor_id long, \
                 comment string, model string, format string, text string, length int"
            }
            Kind::SmartHome => {
                "house_id int, metro_area string, state string, device_id int, power_reading float, is_peak bool"
            }
            Kind::Process => {
                "process_id string, instance_id string, task_id string, status string, start long, end_ long, \
                 user_name string, duration int"
            }
        }
    }

    /// Two sums that do not depend on the order of the rows.
    pub fn sums(self) -> [&'static str; 2] {
        match self {
            Kind::Wiki => ["sum(length)", "sum(contributor_id)"],
            Kind::SmartHome => [
                "sum(cast(floor(power_reading) as bigint))",
                "sum(house_id * 10 + device_id)",
            ],
            Kind::Process => ["sum(duration)", "sum(end_ - start)"],
        }
    }

    /// Puts event `number` of `all` into a bundle, and adds it to the totals.
    pub fn write(self, bundle: &mut Writer, number: u64, all: u64, totals: &mut Totals) {
        let time = time(number, all);
        bundle.event(self.stream(), time);
        // Every event has random numbers of its own, whoever makes it and in which order.
        let mut random = Random::new(number);
        totals.count += 1;
        match self {
            Kind::Wiki => {
                let text = text::article(&mut random);
                let (author, id) = text::author(&mut random);
                let sha1 = digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
                let sha1: String = sha1
                    .as_ref()
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                bundle.string(&sha1);
                bundle.string(&text::words(&mut random, 20));
                bundle.long(time);
                bundle.string(&author);
                bundle.long(id);
                bundle.string(&text::words(&mut random, 40));
                bundle.string("wikitext");
                bundle.string("text/x-wiki");
                bundle.string(&text);
                // The words are ASCII: as many characters as bytes.
                bundle.int(text.len() as i32);
                totals.sums[0] += text.len() as i64;
                totals.sums[1] += id;
            }
            Kind::SmartHome => {
                let house = 1 + random.below(21) as i32;
                let (city, state) = CITIES[random.below(10) as usize];
                let device = 1 + random.below(7) as i32;
                let power = random.unit() * (1 + random.below(10)) as f32 * 100.0;
                bundle.int(house);
                bundle.string(city);
                bundle.string(state);
                bundle.int(device);
                bundle.double(f64::from(power));
                bundle.bool(random.below(2) == 0);
                totals.sums[0] += power.floor() as i64;
                totals.sums[1] += i64::from(house * 10 + device);
            }
            Kind::Process => {
                let duration = random.below(60_000) as i32;
                let process = random.below(500);
                bundle.string(&format!("org.headwater.process.{process:04}"));
                bundle.string(&instance(number));
                bundle.string(&format!("task-{process:04}-{:02}", random.below(20)));
                bundle.string(STATUSES[random.below(4) as usize]);
                bundle.long(time);
                bundle.long(time + i64::from(duration));
                bundle.string(&format!(
                    "user{:05}@headwater.example",
                    random.below(20_000)
                ));
                bundle.int(duration);
                totals.sums[0] += i64::from(duration);
                totals.sums[1] += i64::from(duration);
            }
        }
    }
}

/// When an event happened: in order, over all days.
pub(super) fn time(number: u64, all: u64) -> i64 {
    let span = i128::from(DAYS * DAY);
    let at = span * i128::from(number) / i128::from(all.max(1));
    BEGIN + i64::try_from(at).unwrap_or(DAYS * DAY)
}

/// The id that only this process event has: no two numbers give the same.
pub(super) fn instance(number: u64) -> String {
    // An odd factor permutes the numbers below 2^64.
    format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The begin of a day of the events.
pub(super) fn day(number: i64) -> i64 {
    BEGIN + number * DAY
}

/// SplitMix64.
pub(super) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0xd134_2543_de82_ef95))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below this one; the bias of small bounds is below any figure here.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// From 0 to 1, without 1.
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 24) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_in_whatever_bundles() {
        for kind in [Kind::SmartHome, Kind::Process, Kind::Wiki] {
            let mut whole = Totals::default();
            let mut writer = Writer::default();
            (0..1000).for_each(|number| kind.write(&mut writer, number, 1000, &mut whole));
            let mut halves = Totals::default();
            for half in [500..1000, 0..500] {
                let mut totals = Totals::default();
                half.for_each(|number| kind.write(&mut writer, number, 1000, &mut totals));
                halves.add(totals);
            }
            assert_eq!(whole, halves);
            assert_eq!(whole.count, 1000);
            assert!(whole.sums[0] > 0);
        }
        assert_eq!((time(0, 100), time(100, 100)), (BEGIN, day(DAYS)));
    }
}
