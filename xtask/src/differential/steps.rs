//! What happens to a case: events and their values, time passing, on-demand queries.

use event::Type;
use serde_json::{Value as Json, json};

use super::maker::{Maker, Source};

/// How far the clock goes on, in ms.
const JUMPS: [i64; 13] = [
    100, 0, 1, 50, 250, 500, 500, 1000, 1000, 1500, 2000, 5000, 60_000,
];

impl Maker<'_> {
    pub fn steps(&mut self, start: i64) -> Vec<Json> {
        let mut steps = Vec::new();
        let mut clock = start;
        while let Some(open) = self.choices.one_more(steps.len(), 2, 16, 88) {
            clock += *self.choices.pick(&JUMPS);
            let step = match self.name_of("step") {
                "chunk" if self.one_by_one => self.one_event(clock),
                "advance" => json!({ "at": clock, "advance": true }),
                "query" => match self.on_demand() {
                    Some(query) => json!({ "at": clock, "query": query }),
                    None => json!({ "at": clock, "advance": true }),
                },
                "chunk" => {
                    let stream = self.input();
                    let mut events = Vec::new();
                    while let Some(open) = self.choices.one_more(events.len(), 2, 5, 40) {
                        events.push(self.event(&stream, clock, true));
                        self.choices.close(open);
                    }
                    json!({ "at": clock, "send": { "stream": stream.name, "events": events } })
                }
                _ => self.one_event(clock),
            };
            steps.push(step);
            self.choices.close(open);
        }
        let open = self.choices.open();
        if self.choices.chance(60) {
            steps.push(json!({ "at": clock + 5000, "advance": true }));
        }
        self.choices.close(open);
        steps
    }

    fn one_event(&mut self, clock: i64) -> Json {
        let stream = self.input();
        let mut send = self.event(&stream, clock, self.playback);
        send["stream"] = json!(stream.name);
        json!({ "at": clock, "send": send })
    }

    fn input(&mut self) -> Source {
        let inputs: Vec<Source> = self
            .sources
            .iter()
            .filter(|s| s.is_input)
            .cloned()
            .collect();
        self.choices.pick(&inputs).clone()
    }

    fn event(&mut self, stream: &Source, clock: i64, stamped: bool) -> Json {
        let data: Vec<Json> = stream
            .columns
            .iter()
            .map(|(name, ty)| self.value(name, *ty, clock))
            .collect();
        let own = self.choices.chance(8);
        if !stamped && !own {
            return json!({ "data": data });
        }
        let back = if own {
            *self.choices.pick(&[100, 500, 1000, 3000])
        } else {
            0
        };
        json!({ "ts": (clock - back).max(0), "data": data })
    }

    fn value(&mut self, name: &str, ty: Type, clock: i64) -> Json {
        if self.choices.chance(7) {
            return Json::Null;
        }
        match ty {
            Type::String if name == "d" => json!(*self.choices.pick(&[
                "2020-09-13 12:26:40",
                "2020-09-13 12:26:41",
                "2020-09-13 12:27:40",
                "2020-02-29 23:59:59",
                "2021-01-01 00:00:00",
            ])),
            Type::String | Type::Object => {
                json!(*self.choices.pick(&["A", "B", "C", "A", "B", "", "a b"]))
            }
            Type::Int => json!({ "i": *self.choices.pick(&[1, 2, 3, 0, -1, 7, 2_147_483_647]) }),
            Type::Long if name == "t" => {
                json!({ "l": (clock + *self.choices.pick(&[0, -100, 100, -1000, 700])).max(0) })
            }
            Type::Long => {
                json!({ "l": *self.choices.pick(&[10_i64, 20, 1, -5, 9_007_199_254_740_993]) })
            }
            Type::Float => json!({ "f": *self.choices.pick(&[1.5, 2.5, -0.5, 0.0, 100.25]) }),
            Type::Double => json!({ "d": *self.choices.pick(&[1.5, 2.5, 0.1, -3.25, 0.0, 1e10]) }),
            Type::Bool => json!(*self.choices.pick(&[true, false])),
        }
    }
}
