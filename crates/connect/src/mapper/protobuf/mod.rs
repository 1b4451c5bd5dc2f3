//! `protobuf`: messages of Protocol Buffers, in both directions.
//!
//! Siddhi finds the message by a generated Java class; here a `.proto` file as it is or a
//! descriptor set describes it (see [`description`]), and messages are built and read by the
//! prost-reflect library without generated code. With a gRPC transport the message follows from
//! service and method. Promises: what does not fit the message is refused when the app is made;
//! bytes that are not a message are rejected, and the messages around them are processed; a field
//! that is not set has the value that the format gives it. Never: values of the event before
//! (Siddhi's builder keeps them), groups or extensions.

mod description;
pub mod target;
mod value;

pub use description::compile;
pub use target::Target;

use crate::spec::protobuf::CONNECTORS as SPECS;
use event::{Batch, Schema, Type};
use plan::spec::ConnectorSpec;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, MessageDescriptor};

use super::{Fields, Options, write_value};
use crate::component::{
    Mapper, Payload, PayloadKind, SinkMapper, SinkMapperSetup, SourceMapper, SourceMapperSetup,
};
use crate::error::Error;
use crate::message::Messages;
use crate::rows::{Properties, Rejected, Rows};

pub struct Protobuf;

impl Mapper for Protobuf {
    fn specs(&self) -> &'static [ConnectorSpec] {
        SPECS
    }

    fn takes(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Bytes]
    }

    fn gives(&self) -> &'static [PayloadKind] {
        &[PayloadKind::Bytes]
    }

    fn source(&self, setup: &SourceMapperSetup<'_>) -> Result<Box<dyn SourceMapper>, Error> {
        let options = Options::of_source(setup.mapping);
        let message = message_of(&options, setup.around)?;
        let fields = Fields::of(setup.mapping, setup.schema).list.into_iter();
        let fields = fields.map(|field| {
            let found = field_of(&options, &message, &field.from, &field.name, field.ty)?;
            Ok((field.column, field.ty, found))
        });
        Ok(Box::new(Source {
            fields: fields.collect::<Result<_, Error>>()?,
            message,
        }))
    }

    fn sink(&self, setup: &SinkMapperSetup<'_>) -> Result<Box<dyn SinkMapper>, Error> {
        let options = Options::of_sink(setup.mapping);
        let message = message_of(&options, setup.around)?;
        let fields = entries(&options, setup.schema)?.into_iter();
        let fields = fields.map(|(name, column)| {
            let attribute = &setup.schema.attributes[column];
            let found = field_of(&options, &message, &name, &attribute.name, attribute.ty)?;
            Ok((column, found))
        });
        Ok(Box::new(Sink {
            fields: fields.collect::<Result<_, Error>>()?,
            message,
        }))
    }
}

/// The message of a mapper; `around` are the options of its source or sink.
fn message_of(
    options: &Options<'_>,
    around: &[(String, String)],
) -> Result<MessageDescriptor, Error> {
    let of = |name: &str| {
        around
            .iter()
            .find(|(k, _)| k == name)
            .map(|(_, v)| v.as_str())
    };
    let described = |name: &str| options.text(name).or(of(name));
    let file = described("descriptor.file").ok_or_else(|| {
        options.refused(
            "it needs a description of the message: name its '.proto' file, or a descriptor set, by \
             'descriptor.file'",
        )
    })?;
    let imports = described("descriptor.imports").unwrap_or_default();
    let imports = imports.split(',').map(str::trim).filter(|f| !f.is_empty());
    let imports: Vec<&str> = imports.collect();
    let pool = description::pool(file, &imports).map_err(|cause| {
        options.refused(format!("the description '{file}' cannot be read: {cause}"))
    })?;
    let url = of("publisher.url").or(of("receiver.url"));
    let by_url = match url.filter(|url| url.trim_start().starts_with("grpc")) {
        None => None,
        Some(url) => Some(input_of(options, &pool, url)?),
    };
    let class = match options.text("class") {
        None => None,
        Some(class) => Some(find(&pool, class).ok_or_else(|| {
            let names: Vec<String> = pool.all_messages().map(|m| m.full_name().into()).collect();
            options.refused(format!(
                "the description has no message '{class}'; use one of {}",
                names.join(", ")
            ))
        })?),
    };
    match (class, by_url) {
        (Some(class), Some(input)) if class != input => Err(options.refused(format!(
            "option 'class' names '{}', and the method takes '{}'",
            class.full_name(),
            input.full_name()
        ))),
        (Some(message), _) | (None, Some(message)) => Ok(message),
        (None, None) => Err(options.refused("option 'class' is missing: name the message")),
    }
}

/// What the method of a gRPC URL takes.
fn input_of(
    options: &Options<'_>,
    pool: &DescriptorPool,
    url: &str,
) -> Result<MessageDescriptor, Error> {
    let target = Target::parse(url).map_err(|cause| options.refused(cause))?;
    let Some((service, method)) = target.own_service() else {
        return Err(options.refused(format!(
            "'{url}' is Siddhi's own service, which takes text: use the mapper 'json', 'xml' or 'text'"
        )));
    };
    let found = pool.get_service_by_name(service).and_then(|service| {
        let mut methods = service.methods();
        methods.find(|m| m.name() == method)
    });
    found.map(|method| method.input()).ok_or_else(|| {
        options.refused(format!(
            "the description has no service '{service}' with a method '{method}'"
        ))
    })
}

/// By the full name, else by its last parts: the package of a Java class is another.
fn find(pool: &DescriptorPool, class: &str) -> Option<MessageDescriptor> {
    let class = class.trim().replace('$', ".");
    let mut rest = class.as_str();
    loop {
        if let Some(message) = pool.get_message_by_name(rest) {
            return Some(message);
        }
        let ending = format!(".{rest}");
        let mut all = pool
            .all_messages()
            .filter(|m| m.full_name().ends_with(&ending));
        match (all.next(), all.next()) {
            (Some(message), None) => return Some(message),
            // Which of them is meant cannot be said.
            (Some(_), Some(_)) => return None,
            (None, _) => rest = rest.split_once('.')?.1,
        }
    }
}

fn field_of(
    options: &Options<'_>,
    message: &MessageDescriptor,
    name: &str,
    attribute: &str,
    ty: Type,
) -> Result<FieldDescriptor, Error> {
    let field = message.get_field_by_name(name).ok_or_else(|| {
        let names: Vec<String> = message.fields().map(|f| f.name().to_owned()).collect();
        options.refused(format!(
            "message '{}' has no field '{name}'; use one of {}",
            message.full_name(),
            names.join(", ")
        ))
    })?;
    match value::fits(ty, &field) {
        true => Ok(field),
        false => Err(options.refused(format!(
            "field '{name}' of message '{}' is {}, attribute '{attribute}' is of type {ty}",
            message.full_name(),
            value::describe(&field)
        ))),
    }
}

/// Fields by name, with the attributes that fill them.
fn entries(options: &Options<'_>, schema: &Schema) -> Result<Vec<(String, usize)>, Error> {
    let payload = &options.mapping().payload;
    if payload.is_empty() {
        let all = schema.attributes.iter().enumerate();
        return Ok(all.map(|(i, a)| (a.name.clone(), i)).collect());
    }
    let entry = |(name, text): &(String, String)| {
        let text = text.trim();
        let text = text
            .strip_prefix("{{")
            .and_then(|t| t.strip_suffix("}}"))
            .unwrap_or(text);
        if name.is_empty() {
            return Err(
                options.refused("@payload needs the name of a field: write field='attribute'")
            );
        }
        let column = schema.index_of(text.trim());
        Ok((
            name.clone(),
            column.ok_or_else(|| options.no_attribute(text, schema))?,
        ))
    };
    payload.iter().map(entry).collect()
}

struct Source {
    message: MessageDescriptor,
    fields: Vec<(usize, Type, FieldDescriptor)>,
}

impl SourceMapper for Source {
    fn map(&mut self, payload: Payload<'_>, _properties: &Properties, rows: &mut Rows) {
        const REMEDY: &str = "send messages of the type that the description has";
        let bytes = match payload {
            Payload::Bytes(bytes) => bytes,
            Payload::Text(text) => text.as_bytes(),
            _ => return rows.reject_message(payload, "the message is not binary", REMEDY),
        };
        let message = match DynamicMessage::decode(self.message.clone(), bytes) {
            Ok(message) => message,
            Err(error) => {
                let name = self.message.full_name();
                let cause = format!("the bytes are no message '{name}': {error}");
                return rows.reject_message(payload, cause, REMEDY);
            }
        };
        for (column, ty, field) in &self.fields {
            let column = &mut rows.columns()[*column];
            value::push(column, *ty, &message.get_field(field), field);
        }
        rows.commit_row();
    }
}

struct Sink {
    message: MessageDescriptor,
    fields: Vec<(usize, FieldDescriptor)>,
}

impl Sink {
    fn message(&self, batch: &Batch, row: usize) -> Result<DynamicMessage, String> {
        let mut message = DynamicMessage::new(self.message.clone());
        for (column, field) in &self.fields {
            let found = batch.columns[*column].value(row);
            let value = value::of(&found, field).ok_or_else(|| {
                let kind = found.ty().map_or("null", Type::name);
                let name = field.name();
                format!(
                    "field '{name}' is {} and cannot hold {kind}",
                    value::describe(field)
                )
            })?;
            message.set_field(field, value);
        }
        Ok(message)
    }
}

impl SinkMapper for Sink {
    fn encode(&mut self, batch: &Batch, rows: &[u32], out: &mut Messages) {
        // Each event is a message of its own.
        for row in rows {
            match self.message(batch, *row as usize) {
                Ok(message) => out.push_bytes(&message.encode_to_vec(), std::slice::from_ref(row)),
                Err(cause) => {
                    let text = row_text(batch, *row as usize);
                    let rejected =
                        Rejected::new(&text, cause, "give the event a value of that kind");
                    out.reject(rejected, std::slice::from_ref(row));
                }
            }
        }
    }
}

fn row_text(batch: &Batch, row: usize) -> String {
    let mut text = String::new();
    for (at, column) in batch.columns.iter().enumerate() {
        if at > 0 {
            text.push_str(", ");
        }
        match column.is_null(row) {
            true => text.push_str("null"),
            false => write_value(&mut text, column, row),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::testing::{batch, decoder, mapping, refusal, schema, show};
    use super::super::{find as mapper, testing};
    use super::*;
    use event::{Object, Value};
    use plan::Mapping;

    /// `tests.proto` beside it, made by `protoc --include_imports --descriptor_set_out`.
    fn file() -> String {
        format!(
            "{}/src/mapper/protobuf/tests.pb",
            env!("CARGO_MANIFEST_DIR")
        )
    }

    fn map(class: &str) -> Mapping {
        described(&file(), class)
    }

    fn described(file: &str, class: &str) -> Mapping {
        mapping("protobuf", &[("descriptor.file", file), ("class", class)])
    }

    const PLAIN: &str =
        "text string, count int, large long, single float, double double, flag bool";

    fn encode(map: &Mapping, attributes: &str, row: &[Value]) -> Result<Vec<u8>, String> {
        let schema = schema(attributes);
        let setup = SinkMapperSetup {
            mapping: map,
            schema: &schema,
            around: &[],
        };
        let mut sink = mapper("protobuf")
            .expect("it is there")
            .sink(&setup)
            .expect("it fits");
        let mut out = Messages::default();
        sink.encode(&batch(attributes, &[row]), &[0], &mut out);
        if let Some(rejected) = out.take_rejected().into_iter().next() {
            return Err(rejected.cause);
        }
        let Payload::Bytes(bytes) = out.get(0).payload else {
            unreachable!("it gives bytes");
        };
        Ok(bytes.to_vec())
    }

    fn decode(map: Mapping, attributes: &str, bytes: &[u8]) -> Result<String, String> {
        let mut decoder = decoder(map, &schema(attributes)).expect("it fits");
        decoder.map(Payload::Bytes(bytes), &Properties::none());
        match decoder.take_rejected().into_iter().next() {
            Some(rejected) => Err(rejected.cause),
            None => Ok(show(decoder.take())),
        }
    }

    #[test]
    fn values_go_and_come_back() {
        let row = [
            Value::str("é"),
            Value::Int(-7),
            Value::Long(i64::MIN),
            Value::Float(1.5),
            Value::Double(f64::MAX),
            Value::Bool(true),
        ];
        let bytes = encode(&map("sample.Plain"), PLAIN, &row).expect("it can be sent");
        // As protoc encodes it: field 1, two bytes of text.
        assert!(bytes.starts_with(&[0x0a, 2, 0xc3, 0xa9]), "{bytes:?}");
        let expect = show(Some(batch(PLAIN, &[&row])));
        assert_eq!(decode(map("sample.Plain"), PLAIN, &bytes), Ok(expect));
        // What is not set has the value that the format gives it.
        let unset = [
            Value::str(""),
            Value::Int(0),
            Value::Long(0),
            Value::Float(0.0),
            Value::Double(0.0),
            Value::Bool(false),
        ];
        let expect = show(Some(batch(PLAIN, &[&unset])));
        assert_eq!(decode(map("sample.Plain"), PLAIN, &[]), Ok(expect));
    }

    #[test]
    fn a_proto_file_does_as_well_as_it_is() {
        let text = file().replace(".pb", ".proto");
        let row = [Value::str("é"), Value::Int(-7)];
        let bytes = encode(&map("Plain"), "text string, count int", &row);
        let by_text = encode(&described(&text, "Plain"), "text string, count int", &row);
        assert_eq!(by_text, bytes);
        // With its imports: from the folder that is named, and from that of the file.
        let sub = text.replace("tests.proto", "imports/own.proto");
        let folder = text.replace("/tests.proto", "");
        for (imports, cause) in [
            (format!(" , {folder}"), ""),
            (
                String::new(),
                "own.proto:5:1: import 'tests.proto' not found; name the folder of the import by \
                 'descriptor.imports'",
            ),
        ] {
            let options = [
                ("descriptor.file", sub.as_str()),
                ("descriptor.imports", &imports),
                ("class", "Wrapped"),
            ];
            let error = refusal(&mapping("protobuf", &options), "plain object");
            assert!(
                error.contains(cause) && error.is_empty() == cause.is_empty(),
                "{error}"
            );
        }
        let error = refusal(
            &described(&text.replace("tests", "nowhere"), "Plain"),
            "text string",
        );
        assert!(
            error.contains("nowhere.proto' cannot be read: No such"),
            "{error}"
        );
        let source = text.replace("tests.proto", "mod.rs");
        let error = refusal(&described(&source, "Plain"), "text string");
        assert!(
            error.contains("name a file that ends in '.proto'"),
            "{error}"
        );
    }

    #[test]
    fn lists_maps_and_messages_are_objects() {
        let attributes = "list object, map object, inner object, bytes object, colour string";
        let list = Object::List(event::value::Shared::new(vec![
            Value::Int(1),
            Value::Int(2),
        ]));
        let pairs = vec![
            (Value::str("a"), Value::Long(1)),
            (Value::str("b"), Value::Long(2)),
        ];
        let inner = vec![(Value::str("text"), Value::str("x"))];
        let row = [
            Value::Object(list),
            Value::Object(Object::Map(event::value::Shared::new(pairs))),
            Value::Object(Object::Map(event::value::Shared::new(inner))),
            Value::Object(Object::Bytes([0, 255].into())),
            Value::str("GREEN"),
        ];
        let bytes = encode(&map("sample.Nested"), attributes, &row).expect("it can be sent");
        let mut decoder = decoder(map("sample.Nested"), &schema(attributes)).expect("it fits");
        decoder.map(Payload::Bytes(&bytes), &Properties::none());
        let found = decoder.take().expect("a row");
        assert_eq!(found.columns[4].value(0), row[4]);
        for (column, value) in row.iter().enumerate().take(3) {
            assert_eq!(found.columns[column].value(0), *value, "{column}");
        }
        let Value::Object(Object::Bytes(bytes)) = found.columns[3].value(0) else {
            panic!("no bytes");
        };
        assert_eq!(&bytes[..], &[0, 255]);
    }

    #[test]
    fn fields_are_named_by_attributes_and_payload() {
        let sent = testing::with_payload(map("Plain"), &[("text", "a"), ("count", "{{b}}")]);
        let bytes = encode(&sent, "a string, b int", &[Value::str("x"), Value::Int(3)]);
        let read = testing::with_attributes(map("Plain"), &["count", "text"]);
        let found = decode(read, "n int, t string", &bytes.expect("it can be sent"));
        let expect = show(Some(batch(
            "n int, t string",
            &[&[Value::Int(3), Value::str("x")]],
        )));
        assert_eq!(found, Ok(expect));
    }

    #[test]
    fn the_class_may_be_that_of_java() {
        for class in [
            "sample.Plain",
            "Plain",
            "org.wso2.grpc.test.Plain",
            "a.Sample$Plain",
        ] {
            assert_eq!(refusal(&map(class), "text string"), "", "{class}");
        }
        for (class, cause) in [("sample.Nope", "use one of"), ("Twice", "use one of")] {
            let error = refusal(&map(class), "text string");
            assert!(error.contains(cause), "{class}: {error}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_or_rejected() {
        for (attributes, cause) in [
            ("nope string", "has no field 'nope'; use one of text, count"),
            (
                "text int",
                "field 'text' of message 'sample.Plain' is string",
            ),
            ("count long", "is int32"),
        ] {
            let error = refusal(&map("Plain"), attributes);
            assert!(error.contains(cause), "{error}");
        }
        let error = refusal(&mapping("protobuf", &[("class", "Plain")]), "text string");
        assert!(error.contains("by 'descriptor.file'"), "{error}");
        let error = refusal(
            &mapping("protobuf", &[("descriptor.file", &file())]),
            "text string",
        );
        assert!(error.contains("'class' is missing"), "{error}");
        let error = encode(&map("Plain"), "text string", &[Value::Null]);
        assert_eq!(
            error.unwrap_err(),
            "field 'text' is string and cannot hold null"
        );
        let list = Object::List(event::value::Shared::new(vec![Value::str("no number")]));
        let error = encode(&map("Nested"), "list object", &[Value::Object(list)]);
        assert_eq!(
            error.unwrap_err(),
            "field 'list' is a list of int32 and cannot hold object"
        );
        for bytes in [&b"\x0a\xff"[..], b"\x0a\x02\xff\xfe", b"\x08"] {
            let error = decode(map("Plain"), "text string", bytes).unwrap_err();
            assert!(error.contains("no message 'sample.Plain'"), "{error}");
        }
    }
}
