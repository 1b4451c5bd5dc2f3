//! A sink mapper and the options that depend on the event: the way out before a sink.
//!
//! A chunk is cut into groups of equal option values, in first-seen order, and each group is
//! encoded by itself (`connectors.md` 2.3; Siddhi's `SinkMapper.mapAndSend`).

use event::{Batch, Schema};
use lang::plan::Transport;
use lang::spec::ConnectorSpec;

use crate::component::{PayloadKind, SinkMapper, SinkMapperSetup};
use crate::error::Error;
use crate::mapper;
use crate::message::Messages;
use crate::template::Template;

/// The mapping of one sink.
pub struct Outlet {
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
}

impl Outlet {
    /// `spec` is that of the sink, `takes` what it takes.
    pub fn new(
        transport: &Transport,
        schema: &Schema,
        spec: &ConnectorSpec,
        takes: &[PayloadKind],
    ) -> Result<Outlet, Error> {
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
        let mapper = format.sink(&SinkMapperSetup { mapping, schema })?;
        let (names, templates) = dynamic_options(transport, schema, spec)?;
        Ok(Outlet {
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

    /// The group of `key`. Groups of a chunk are few; the last one is the likeliest.
    fn group(&mut self) -> usize {
        let found = self.keys[..self.used]
            .iter()
            .rposition(|key| *key == self.key);
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
        self.used - 1
    }
}
