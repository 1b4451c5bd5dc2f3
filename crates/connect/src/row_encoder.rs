//! A sink mapper and the options that depend on the event: the way out before a sink.
//!
//! A chunk is cut into groups of equal option values, in first-seen order, and each group is
//! encoded by itself (`connectors.md` 2.3; Siddhi's `SinkMapper.mapAndSend`).

use std::collections::HashMap;

use event::{Batch, Schema};
use plan::Transport;
use plan::spec::ConnectorSpec;

use crate::component::{PayloadKind, SinkMapper, SinkMapperSetup};
use crate::error::Error;
use crate::mapper;
use crate::message::Messages;
use crate::template::Template;

/// The mapping of one sink.
pub struct RowEncoder {
    mapper: Box<dyn SinkMapper>,
    names: Vec<String>,
    templates: Vec<Template>,
    groups: Groups,
}

/// Groups of the chunk at hand; reused.
#[derive(Default)]
struct Groups {
    /// The resolved values of a row, behind one another.
    key: String,
    keys: Vec<String>,
    rows: Vec<Vec<u32>>,
    used: usize,
    /// Groups by key, once there are many; never iterated.
    index: HashMap<String, usize>,
}

/// Groups that are looked through without an index.
const SEARCHED_MAX: usize = 8;

impl RowEncoder {
    /// `spec` is that of the sink, `takes` what it takes.
    pub fn new(
        transport: &Transport,
        schema: &Schema,
        spec: &ConnectorSpec,
        takes: &[PayloadKind],
    ) -> Result<RowEncoder, Error> {
        let mapping = &transport.map;
        let component = || format!("sink mapper '{}'", mapping.ty);
        let format = mapper::find(&mapping.ty)
            .ok_or_else(|| Error::refused(component(), "there is no mapper of this type"))?;
        if !PayloadKind::overlap(format.gives(), takes) {
            return Err(Error::refused(
                component(),
                format!(
                    "sink '{}' cannot take what it gives; use another mapper",
                    transport.ty
                ),
            ));
        }
        let mapper = format.sink(&SinkMapperSetup {
            mapping,
            schema,
            around: &transport.options,
        })?;
        let (names, templates) = dynamic_options(transport, schema, spec)?;
        Ok(RowEncoder {
            mapper,
            names,
            templates,
            groups: Groups::default(),
        })
    }

    /// Names of the options that depend on the event; [`crate::message::Message::option`] has their
    /// values in this order.
    pub fn dynamic(&self) -> &[String] {
        &self.names
    }

    /// Has the mapper all that it needs?
    ///
    /// # Errors
    /// [`Error::Unavailable`]: not now.
    pub fn ready(&mut self) -> Result<(), Error> {
        self.mapper.ready()
    }

    /// Replaces `out` by the messages of a batch, in the order of its chunks.
    pub fn encode(&mut self, batch: &Batch, out: &mut Messages) {
        out.clear();
        if self.templates.is_empty() {
            return self.mapper.encode_all(batch, out);
        }
        for chunk in 0..batch.chunk_count() {
            self.groups.cut(&self.templates, batch, chunk);
            for group in 0..self.groups.used {
                let rows = &self.groups.rows[group];
                out.begin_group(options(&self.templates, batch, rows[0] as usize));
                self.mapper.encode(batch, rows, out);
            }
        }
    }
}

fn options(templates: &[Template], batch: &Batch, row: usize) -> Vec<String> {
    templates
        .iter()
        .map(|template| {
            let mut value = String::new();
            template.write(&mut value, batch, row, "null");
            value
        })
        .collect()
}

fn dynamic_options(
    transport: &Transport,
    schema: &Schema,
    spec: &ConnectorSpec,
) -> Result<(Vec<String>, Vec<Template>), Error> {
    let component = format!("sink '{}'", transport.ty);
    let (mut names, mut templates) = (Vec::new(), Vec::new());
    for (name, text) in &transport.options {
        if !Template::is_template(text) {
            continue;
        }
        if !spec.option(name).is_none_or(|option| option.dynamic) {
            return Err(Error::refused(
                component,
                format!("option '{name}' cannot depend on the event; write a constant"),
            ));
        }
        names.push(name.clone());
        templates.push(Template::new(text, schema, &component)?);
    }
    Ok((names, templates))
}

impl Groups {
    fn cut(&mut self, templates: &[Template], batch: &Batch, chunk: usize) {
        self.used = 0;
        self.index.clear();
        for row in batch.chunk(chunk) {
            self.key.clear();
            for template in templates {
                template.write(&mut self.key, batch, row, "null");
                // A separator, so that `a` + `bc` is not `ab` + `c`.
                self.key.push('\u{1}');
            }
            let group = self.group();
            self.rows[group].push(row as u32);
        }
    }

    /// The group of `key`, made where there is none. Most chunks have few groups, which are looked
    /// through from the last; the others have an index.
    fn group(&mut self) -> usize {
        let found = if self.used <= SEARCHED_MAX {
            self.keys[..self.used]
                .iter()
                .rposition(|key| *key == self.key)
        } else {
            self.index.get(&self.key).copied()
        };
        if let Some(group) = found {
            return group;
        }
        if self.used == self.keys.len() {
            self.keys.push(String::new());
            self.rows.push(Vec::new());
        }
        self.keys[self.used].clone_from(&self.key);
        self.rows[self.used].clear();
        self.used += 1;
        if self.used > SEARCHED_MAX {
            let indexed = self.index.len();
            for group in indexed..self.used {
                self.index.insert(self.keys[group].clone(), group);
            }
        }
        self.used - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapper::testing::{batch, mapping, schema};
    use crate::spec::in_memory;
    use event::Value;
    use lang::span::Span;

    fn transport(options: &[(&str, &str)]) -> Transport {
        Transport {
            ty: "inMemory".into(),
            options: options
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            map: mapping("csv", &[("event.grouping.enabled", "true")]),
            distribution: None,
            span: Span::default(),
        }
    }

    const ATTRIBUTES: &str = "topic string, value int";

    fn encoder(options: &[(&str, &str)]) -> Result<RowEncoder, Error> {
        let schema = schema(ATTRIBUTES);
        RowEncoder::new(
            &transport(options),
            &schema,
            &in_memory::SINK,
            &[PayloadKind::Any],
        )
    }

    fn check(options: &[(&str, &str)], topics: &[&str], expect: &[(&str, &str)]) {
        let rows: Vec<[Value; 2]> = topics
            .iter()
            .zip(0..)
            .map(|(topic, i)| [Value::str(topic), Value::Int(i)])
            .collect();
        let rows: Vec<&[Value]> = rows.iter().map(<[Value; 2]>::as_slice).collect();
        let mut encoder = encoder(options).expect("it can be made");
        let mut messages = Messages::default();
        let batch = batch(ATTRIBUTES, &rows);
        // Twice: what is reused must be clean.
        for _ in 0..2 {
            encoder.encode(&batch, &mut messages);
            let found: Vec<(String, String)> = messages
                .iter()
                .map(|message| {
                    let crate::component::Payload::Text(text) = message.payload else {
                        unreachable!("csv gives text");
                    };
                    let option = match encoder.dynamic() {
                        [] => "",
                        _ => message.option(0),
                    };
                    (option.to_owned(), text.replace('\n', ";"))
                })
                .collect();
            let expect: Vec<(String, String)> = expect
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect();
            assert_eq!(found, expect);
        }
    }

    #[test]
    fn a_chunk_is_cut_by_the_values_of_its_options() {
        check(&[("topic", "x")], &["a", "b"], &[("", "a,0;b,1;")]);
        check(
            &[("topic", "t-{{topic}}")],
            &["a", "b", "a"],
            &[("t-a", "a,0;a,2;"), ("t-b", "b,1;")],
        );
    }

    #[test]
    fn many_groups_keep_the_order_in_which_they_came() {
        let topics: Vec<String> = (0..40).map(|i| format!("g{}", i % 20)).collect();
        let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
        let expect: Vec<(String, String)> = (0..20)
            .map(|i| (format!("g{i}"), format!("g{i},{i};g{i},{};", i + 20)))
            .collect();
        let expect: Vec<(&str, &str)> = expect
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        check(&[("topic", "{{topic}}")], &topics, &expect);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(encoder(&[("topic", "{{nope}}")]).is_err());
        assert!(encoder(&[("topic", "{{ topic }}")]).is_err());
        assert!(encoder(&[("on.error", "{{topic}}"), ("topic", "x")]).is_err());
    }
}
