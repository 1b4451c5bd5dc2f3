//! `headwater connectors`.

use std::fmt::Write as _;

use lang::catalog::connectors;
use lang::spec::{ConnectorSpec, OptionSpec, OptionStatus, OptionType, Status};
use lang::suggest::nearest;
use serde_json::{Value, json};
use server::Error;

use crate::cli::ConnectorsArgs;
use crate::output::Output;

pub fn run(args: &ConnectorsArgs, output: &Output) -> anyhow::Result<u8> {
    let mut specs: Vec<&ConnectorSpec> = connectors::all()
        .filter(|s| {
            args.name
                .as_ref()
                .is_none_or(|name| s.name == name || s.aliases.contains(&name.as_str()))
        })
        .collect();
    if specs.is_empty() {
        return Err(unknown(args.name.as_deref().unwrap_or_default()).into());
    }
    specs.sort_by_key(|s| (s.kind, s.name));
    if args.json {
        let all: Vec<Value> = specs.iter().map(|s| spec_json(s)).collect();
        output.print_json(&Value::Array(all))?;
    } else if args.name.is_some() {
        for spec in specs {
            output.print(&detail(spec))?;
        }
    } else {
        output.print(&list(&specs))?;
    }
    Ok(0)
}

fn unknown(name: &str) -> Error {
    let hint = nearest(name, connectors::all().map(|s| s.name))
        .map_or_else(String::new, |n| format!("; did you mean '{n}'?"));
    Error::Usage(format!("there is no component '{name}'{hint}"))
}

const fn status(status: Status) -> &'static str {
    match status {
        Status::Runs => "runs",
        Status::Known => "known",
    }
}

const fn option_status(status: OptionStatus) -> &'static str {
    match status {
        OptionStatus::Honoured => "honoured",
        OptionStatus::Ignored => "ignored",
        OptionStatus::Refused => "refused",
    }
}

fn option_type(option: &OptionSpec) -> String {
    match option.ty {
        OptionType::OneOf(values) => values.join("|"),
        ty => ty.name().to_owned(),
    }
}

fn spec_json(spec: &ConnectorSpec) -> Value {
    let options: Vec<Value> = spec
        .all_options()
        .map(|o| {
            json!({
                "name": o.name,
                "aliases": o.aliases,
                "type": option_type(o),
                "required": o.required,
                "default": if o.default.is_empty() { Value::Null } else { json!(o.default) },
                "dynamic": o.dynamic,
                "status": option_status(o.status),
                "test": o.test,
                "doc": o.doc,
            })
        })
        .collect();
    json!({
        "kind": spec.kind.name(),
        "name": spec.name,
        "origin": spec.origin,
        "status": status(spec.status),
        "summary": spec.summary,
        "options": options,
    })
}

fn list(specs: &[&ConnectorSpec]) -> String {
    let mut text = String::new();
    let width = specs.iter().map(|s| s.name.len()).max().unwrap_or(0);
    let mut kind = None;
    for spec in specs {
        if kind != Some(spec.kind) {
            if kind.is_some() {
                text.push('\n');
            }
            kind = Some(spec.kind);
            put(&mut text, format_args!("{}\n", spec.kind.name()));
        }
        put(
            &mut text,
            format_args!(
                "  {:<width$}  {:<5}  {}\n",
                spec.name,
                status(spec.status),
                spec.summary
            ),
        );
    }
    text
}

fn detail(spec: &ConnectorSpec) -> String {
    let mut text = String::new();
    put(
        &mut text,
        format_args!(
            "{} '{}' ({}, {})\n  {}\n",
            spec.kind.name(),
            spec.name,
            spec.origin,
            status(spec.status),
            spec.summary
        ),
    );
    for option in spec.all_options() {
        let mut facts = vec![option_type(option)];
        if option.required {
            facts.push("required".to_owned());
        }
        if !option.default.is_empty() {
            facts.push(format!("default {}", option.default));
        }
        if option.dynamic {
            facts.push("may depend on the event".to_owned());
        }
        if option.status != OptionStatus::Honoured {
            facts.push(option_status(option.status).to_owned());
        }
        put(
            &mut text,
            format_args!(
                "\n  {} ({})\n      {}\n",
                option.name,
                facts.join(", "),
                option.doc
            ),
        );
    }
    if !spec.example.is_empty() {
        text.push_str("\n  Example:\n");
        for line in spec.example.trim_matches('\n').lines() {
            put(&mut text, format_args!("    {line}\n"));
        }
    }
    text.push('\n');
    text
}

fn put(text: &mut String, part: std::fmt::Arguments<'_>) {
    text.write_fmt(part)
        .expect("writing to a string does not fail");
}
