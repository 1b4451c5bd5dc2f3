//! Any text is parsed or refused at a place in it.

use crate::error::Error;
use crate::names::Names;
use crate::statement::parsed;

const SEEDS: [&str; 8] = [
    "select a, sum(b) as \"Total\" from t where c in (1, -2.5e3) group by a having sum(b) > 0 order by 2 desc limit 3",
    "with x(a) as (select 1 union all select 2), y as (select * from x, x as z) select * from y join t using (a)",
    "select case when a is null then 'ü' else b::varchar || 'x' end from (values (1, 2), (3, 4)) v(a, b)",
    "explain analyze select row_number() over (partition by a order by b rows between 1 preceding and current row) from t",
    "select $$dollar$$, E'a\\n', X'ff', date '2024-01-01' + interval '1 day' -- end\n/* nested /* ; */ */",
    "select a from t where exists (select 1 from u where u.a = t.a) and not (b between 1 and 2 or c like 'a%')",
    "describe t",
    "copy (select 1) to 'x'",
];

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// Words are left out, doubled, exchanged, and replaced by what is special.
fn changed(random: &mut Random) -> String {
    const ODD: [&str; 14] = [
        "'",
        "\"",
        "(",
        ")",
        ";",
        "--",
        "/*",
        "\u{0}",
        "𝄞",
        "[",
        "::",
        "as",
        "select",
        "99999999999999999999",
    ];
    let seed = SEEDS[random.below(SEEDS.len())];
    let mut words: Vec<&str> = seed.split_inclusive([' ', '(', ')', ',']).collect();
    for _ in 0..1 + random.below(4) {
        let at = random.below(words.len());
        match random.below(5) {
            0 if words.len() > 1 => {
                words.remove(at);
            }
            1 => words.insert(at, words[random.below(words.len())]),
            2 => words.insert(at, ODD[random.below(ODD.len())]),
            3 => words[at] = ODD[random.below(ODD.len())],
            _ => words.truncate(at + 1),
        }
    }
    words.concat()
}

#[test]
fn any_text_is_parsed_or_refused_at_a_place_in_it() {
    let mut names = Names::default();
    names.add_table("t");
    ["a", "Total", "C"]
        .iter()
        .for_each(|name| names.add_column(name));
    let mut random = Random(7);
    let mut parsed_count = 0;
    for _ in 0..3000 {
        let text = changed(&mut random);
        match parsed(&text, &names) {
            Ok(_) => parsed_count += 1,
            Err(Error::Statement(fault)) => {
                let marked = text.get(fault.span.start as usize..fault.span.end as usize);
                assert!(marked.is_some(), "{text:?}: {fault:?}");
                assert!(!fault.message.is_empty(), "{text:?}");
            }
            Err(other) => panic!("{text:?}: {other:?}"),
        }
    }
    assert!(
        (100..2900).contains(&parsed_count),
        "{parsed_count} of 3000 were parsed"
    );
}
