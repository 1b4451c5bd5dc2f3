//! A schema registry: what the REST interface of Confluent's has that clients ask for, with Apache
//! Avro's own library for Python to judge schemas. Confluent's own is not on Maven Central.
//!
//! Schemas are kept in the data folder, and are there after a restart. Beside it lie Apache Avro's tools
//! for Java ([`java`]), as independent readers and writers.
//!
//! Settings of an order: `user` is a `name:password` that alone may ask, `tls` a PEM file with key and
//! certificate, `clients` one with the certificates of those who may ask, `first` the number of the
//! first schema.

use std::path::Path;
use std::process::Command;

use crate::debian::program;
use crate::ready::listens;
use crate::{Error, Place, Recipe, answers, run};

pub(crate) const SCHEMA_REGISTRY: SchemaRegistry = SchemaRegistry;

pub(crate) struct SchemaRegistry;

const PACKAGE: &str = "python3-avro";

const TOOLS: &str = "avro-tools-1.12.0.jar";

const SCRIPT: &str = r#"
import base64, json, os, ssl, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import avro.schema

port, data, user, tls, clients, first = sys.argv[1:7]
path = os.path.join(data, 'schemas.json')
# Registered schemas: text, references and type by number; numbers by subject.
kept = {'schemas': {}, 'subjects': {}}
if os.path.exists(path):
    kept = json.load(open(path))

class Said(Exception):
    def __init__(self, status, code, message):
        self.status, self.answer = status, {'error_code': code, 'message': message}

def judged(body):
    kind = body.get('schemaType', 'AVRO')
    if kind == 'AVRO' and not body.get('references'):
        try:
            avro.schema.parse(body['schema'])
        except Exception as error:
            raise Said(422, 42201, 'Invalid schema: %s' % error)
    return {'schema': body['schema'], 'references': body.get('references', []), 'schemaType': kind}

def known(schema):
    for number, other in kept['schemas'].items():
        if other == schema:
            return int(number)

def subject_of(name):
    if name not in kept['subjects']:
        raise Said(404, 40401, "Subject '%s' not found." % name)
    return kept['subjects'][name]

def get(parts):
    if len(parts) == 3 and parts[:2] == ['schemas', 'ids']:
        schema = kept['schemas'].get(parts[2])
        if schema is None:
            raise Said(404, 40403, 'Schema %s not found' % parts[2])
        return {key: value for key, value in schema.items() if value and value != 'AVRO'}
    if parts == ['subjects']:
        return sorted(kept['subjects'])
    if len(parts) == 4 and parts[0] == 'subjects' and parts[2] == 'versions':
        numbers = subject_of(parts[1])
        at = len(numbers) if parts[3] == 'latest' else int(parts[3])
        if not 1 <= at <= len(numbers):
            raise Said(404, 40402, 'Version %s not found.' % parts[3])
        number = numbers[at - 1]
        return dict(kept['schemas'][str(number)], subject=parts[1], version=at, id=number)
    raise Said(404, 404, 'HTTP 404 Not Found')

def post(parts, body):
    if len(parts) == 3 and parts[0] == 'subjects' and parts[2] == 'versions':
        schema = judged(body)
        number = known(schema)
        if number is None:
            number = len(kept['schemas']) + int(first or 1)
            kept['schemas'][str(number)] = schema
        numbers = kept['subjects'].setdefault(parts[1], [])
        if number not in numbers:
            numbers.append(number)
        json.dump(kept, open(path, 'w'))
        return {'id': number}
    if len(parts) == 2 and parts[0] == 'subjects':
        numbers, number = subject_of(parts[1]), known(judged(body))
        if number not in numbers:
            raise Said(404, 40403, 'Schema not found')
        return {'id': number, 'subject': parts[1], 'version': numbers.index(number) + 1}
    raise Said(404, 404, 'HTTP 404 Not Found')

class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def answer(self, work):
        from urllib.parse import unquote
        wanted = 'Basic ' + base64.b64encode(user.encode()).decode()
        length = int(self.headers.get('Content-Length') or 0)
        body = self.rfile.read(length)
        try:
            if user and self.headers.get('Authorization') != wanted:
                raise Said(401, 401, 'Unauthorized')
            parts = [unquote(part) for part in self.path.strip('/').split('/')]
            status, found = 200, work(parts, body)
        except Said as said:
            status, found = said.status, said.answer
        text = json.dumps(found).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'application/vnd.schemaregistry.v1+json')
        self.send_header('Content-Length', str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        self.answer(lambda parts, body: get(parts))

    def do_POST(self):
        self.answer(lambda parts, body: post(parts, json.loads(body)))

server = ThreadingHTTPServer(('127.0.0.1', int(port)), Handler)
if tls:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls)
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients)
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"#;

impl Recipe for SchemaRegistry {
    fn name(&self) -> &'static str {
        "schema-registry"
    }

    fn about(&self) -> &'static str {
        "a schema registry of the tests, and Apache Avro's tools for Java from Maven Central"
    }

    fn packages(&self) -> &'static [&'static str] {
        &[PACKAGE, "default-jre-headless", "maven"]
    }

    fn edition(&self) -> &'static str {
        "1.12.0"
    }

    fn install(&self, into: &Path) -> Result<(), Error> {
        self.python()?;
        if !answers("mvn", &["--version"]) || !answers("java", &["-version"]) {
            return Err(Error::missing(
                "there is no 'mvn' or no 'java'",
                "apt-get install maven default-jre-headless brings them",
            ));
        }
        run(Command::new("mvn")
            .args(["-q", "-B", "dependency:copy"])
            .arg("-Dartifact=org.apache.avro:avro-tools:1.12.0")
            .arg(format!("-DoutputDirectory={}", into.display())))
        .map_err(|error| {
            let what = format!("Avro's tools cannot be fetched from Maven Central: {error}");
            Error::missing(what, "connect this machine to it")
        })?;
        Ok(())
    }

    fn version(&self, installed: &Path) -> Result<String, Error> {
        let python = self.python()?;
        match installed.join(TOOLS).is_file() {
            true => Ok(format!(
                "registry of the tests, Apache Avro {python} (Python), 1.12.0 (Java)"
            )),
            false => Err(Error::failed("the installation is not whole", TOOLS)),
        }
    }

    fn launch(&self, place: &Place) -> Result<Command, Error> {
        let script = place.write("serve.py", SCRIPT)?;
        let mut command = Command::new(program("python3", PACKAGE)?);
        command
            .arg(script)
            .arg(place.port().to_string())
            .arg(place.data());
        for key in ["user", "tls", "clients", "first"] {
            command.arg(place.setting(key).unwrap_or_default());
        }
        Ok(command)
    }

    fn ready(&self, place: &Place) -> Result<(), String> {
        listens(place)
    }
}

impl SchemaRegistry {
    fn python(&self) -> Result<String, Error> {
        let mut ask = Command::new(program("python3", PACKAGE)?);
        ask.args(["-c", "import avro; print(avro.__version__)"]);
        let said = run(&mut ask).map_err(|_| {
            let remedy = format!("apt-get install {PACKAGE} brings it");
            Error::missing("there is no Avro for Python", remedy)
        })?;
        Ok(said.trim().to_owned())
    }
}

/// Apache Avro's tools for Java, as the registry's place has them.
pub fn java(place: &Place) -> Command {
    let mut command = Command::new("java");
    command
        .args(["-Xmx128m", "-XX:TieredStopAtLevel=1", "-jar"])
        .arg(place.installed().join(TOOLS));
    command
}
