//! Codes of documents of APIs (AsyncAPI): E10xx and W10xx. Their pages hold documents, not apps; the crate
//! `gateway` finds them.

use super::{CodePage, Example};

pub const SYNTAX: &str = "E1001";
pub const UNKNOWN_KEY: &str = "E1002";
pub const MISSING: &str = "E1003";
pub const BAD_VALUE: &str = "E1004";
pub const VERSION: &str = "E1005";
pub const REFERENCE: &str = "E1006";
pub const UNKNOWN_NAME: &str = "E1007";
pub const TWICE: &str = "E1008";
pub const NOT_YET: &str = "E1009";
pub const NO_ISSUER: &str = "E1010";
pub const WITHOUT_EFFECT: &str = "W1001";

const FINE: &str = "asyncapi: 3.0.0\ninfo: { title: Ticks, version: 1.0.0 }\n\
    channels: { all: { address: /all } }\n\
    operations: { hear: { action: send, channel: { $ref: '#/channels/all' } } }\n";

#[rustfmt::skip] // one page after the other, as in a book
pub(super) const CODES: &[CodePage] = &[
    page(
        SYNTAX,
        "a document that is neither YAML nor JSON",
        "The text of an API document cannot be read, or is larger or deeper than is read.",
        "Correct it at the place that is shown.",
        "asyncapi: 3.0.0\ninfo: { title: Ticks, version: 1.0.0\n",
        FINE,
    ),
    page(
        UNKNOWN_KEY,
        "an unknown key in x-headwater",
        "What the gateway does with an API is said below `x-headwater`, where every key has a meaning. A misspelt \
         one would be ignored in silence, and with it a limit or a policy.",
        "Write the key as docs/gateway.md has it.",
        "asyncapi: 3.0.0\ninfo: { title: Ticks, version: 1.0.0 }\nchannels: { all: { address: /all } }\n\
         x-headwater: { protocol: [ sse ] }\n",
        "asyncapi: 3.0.0\ninfo: { title: Ticks, version: 1.0.0 }\nchannels: { all: { address: /all } }\n\
         x-headwater: { protocols: [ sse ] }\n",
    ),
    page(
        MISSING,
        "a key that an API document needs is missing",
        "An API has a name and a version (`info`), and channels.",
        "Add the key.",
        "asyncapi: 3.0.0\ninfo: { title: Ticks }\nchannels: { all: { address: /all } }\n",
        FINE,
    ),
    page(
        BAD_VALUE,
        "a value that a key of an API document cannot have",
        "The value is of another kind, or none of those that there are.",
        "Write one of the values that the message names.",
        "asyncapi: 3.0.0\ninfo: { title: Ticks, version: 1.0.0 }\nchannels: { all: { address: '/all/{' } }\n",
        FINE,
    ),
    page(
        VERSION,
        "a version of AsyncAPI that is not read",
        "AsyncAPI 2.0 to 2.6, 3.0 and 3.1 are read. Others differ in what a document means.",
        "Convert the document; the AsyncAPI command line does so.",
        "asyncapi: 1.2.0\ninfo: { title: Ticks, version: 1.0.0 }\nchannels: { all: { address: /all } }\n",
        FINE,
    ),
    page(
        REFERENCE,
        "a reference that leads nowhere",
        "A `$ref` names a place in the same document (`#/channels/all`), and there is nothing.",
        "Correct the reference. References to other files are not followed: put what they name into the document.",
        "asyncapi: 3.0.0\ninfo: { title: Ticks, version: 1.0.0 }\nchannels: { all: { address: /all } }\n\
         operations: { hear: { action: send, channel: { $ref: '#/channels/al' } } }\n",
        FINE,
    ),
    page(
        UNKNOWN_NAME,
        "a name of something that is not there",
        "`x-headwater` says of a topic, stream or attribute what becomes of it, and there is none of that name.",
        "Write the name as the channels of the document, or the app, have it.",
        "asyncapi: 3.0.0\ninfo: { title: Ticks, version: 1.0.0 }\nchannels: { all: { address: /all } }\n\
         x-headwater: { topics: { /al: { slow: latest } } }\n",
        "asyncapi: 3.0.0\ninfo: { title: Ticks, version: 1.0.0 }\nchannels: { all: { address: /all } }\n\
         x-headwater: { topics: { /all: { slow: latest } } }\n",
    ),
    page(
        TWICE,
        "two APIs, or two topics, at one address",
        "A request could mean both.",
        "Give one of them another name, version, context or address.",
        "asyncapi: 3.0.0\ninfo: { title: Ticks, version: 1.0.0 }\n\
         channels: { one: { address: '/{a}' }, two: { address: '/{b}' } }\n",
        FINE,
    ),
    page(
        NOT_YET,
        "something that the gateway does not do yet",
        "The key is known and has a meaning, but nothing would come of it. Rather than ignore it, the document is \
         refused.",
        "Leave the key out.",
        "asyncapi: 3.0.0\ninfo: { title: Ticks, version: 1.0.0 }\nchannels: { all: { address: /all } }\n\
         x-headwater: { topics: { /all: { filter: 'tenant == jwt.tenant' } } }\n",
        FINE,
    ),
    page(
        NO_ISSUER,
        "an operation that asks for a token which nobody can give",
        "The operation has `security`, and the document names no issuer whose tokens count. Nobody could use it.",
        "Name the issuers of tokens below `x-headwater`; `issuers: [ own ]` is the server's own.",
        "asyncapi: 2.6.0\ninfo: { title: Ticks, version: 1.0.0 }\n\
         channels: { /all: { subscribe: { security: [ { jwt: [] } ] } } }\n\
         components: { securitySchemes: { jwt: { type: oauth2, flows: {} } } }\n",
        FINE,
    ),
    page(
        WITHOUT_EFFECT,
        "a part of the document that has no effect",
        "AsyncAPI has it, and the gateway does nothing with it.",
        "Nothing has to be done; the rest of the document holds.",
        "asyncapi: 3.0.0\ninfo: { title: Ticks, version: 1.0.0 }\n\
         channels: { all: { address: null }, one: { address: /one } }\n",
        FINE,
    ),
];

const fn page(
    code: &'static str,
    title: &'static str,
    cause: &'static str,
    fix: &'static str,
    failing: &'static str,
    fixed: &'static str,
) -> CodePage {
    let mut page = CodePage::new(code, title, cause, fix, failing, fixed);
    page.example = Example::Document;
    page
}
