//! A route as data: what is asked for, who may, what goes in and comes out, and the handler.

use axum::routing::{MethodFilter, MethodRouter};
use serde_json::{Value as Json, json};

use crate::access::Role;
use crate::http::Services;

/// Matches a text with more in it than white space.
pub(in crate::http) const NOT_BLANK: &str = "\\S";

/// One method of one path.
pub(in crate::http) struct Route {
    pub verb: Verb,
    /// With parameters in braces: `/siddhi-apps/{app}/streams`. It is answered with a slash behind it, too.
    pub path: &'static str,
    pub access: Access,
    /// One line, without a full stop.
    pub summary: &'static str,
    /// Behind the question mark.
    pub query: &'static [Param],
    /// Any of these; none is needed if it is empty.
    pub bodies: &'static [Content],
    /// What is answered if all goes well.
    pub answers: &'static [Answer],
    /// Does each request change something?
    pub is_change: bool,
    pub serve: Serve,
}

/// Puts the handler behind the method.
pub(in crate::http) type Serve = fn(MethodFilter) -> MethodRouter<Services>;

/// Who may ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::http) enum Access {
    /// Whoever can connect.
    Anyone,
    Role(Role),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::http) enum Verb {
    Get,
    Post,
    Put,
    Delete,
}

/// A parameter behind the question mark.
#[derive(Clone, Copy)]
pub(in crate::http) struct Param {
    pub name: &'static str,
    pub about: &'static str,
    pub is_needed: bool,
    /// As JSON schema.
    pub schema: fn() -> Json,
}

/// A body, or what is in an answer.
pub(in crate::http) struct Content {
    pub kind: &'static str,
    /// As JSON schema.
    pub schema: fn() -> Json,
}

pub(in crate::http) struct Answer {
    pub status: u16,
    pub about: &'static str,
    pub content: Content,
    /// In these forms, too, if the client accepts them.
    pub others: &'static [Content],
}

impl Verb {
    pub fn name(self) -> &'static str {
        match self {
            Verb::Get => "GET",
            Verb::Post => "POST",
            Verb::Put => "PUT",
            Verb::Delete => "DELETE",
        }
    }

    pub fn filter(self) -> MethodFilter {
        match self {
            Verb::Get => MethodFilter::GET,
            Verb::Post => MethodFilter::POST,
            Verb::Put => MethodFilter::PUT,
            Verb::Delete => MethodFilter::DELETE,
        }
    }
}

impl Content {
    pub const TEXT: Content = Content {
        kind: "text/plain",
        schema: || json!({ "type": "string" }),
    };

    /// A text with more in it than white space.
    pub const WORDS: Content = Content {
        kind: "text/plain",
        schema: || json!({ "type": "string", "pattern": NOT_BLANK }),
    };

    /// JSON of that schema.
    pub const fn json(schema: fn() -> Json) -> Content {
        Content {
            kind: "application/json",
            schema,
        }
    }
}

impl Answer {
    pub const fn new(status: u16, about: &'static str, content: Content) -> Answer {
        Answer {
            status,
            about,
            content,
            others: &[],
        }
    }

    pub const fn or(mut self, others: &'static [Content]) -> Answer {
        self.others = others;
        self
    }
}

impl Route {
    const fn new(
        verb: Verb,
        path: &'static str,
        role: Role,
        summary: &'static str,
        serve: Serve,
    ) -> Route {
        Route {
            verb,
            path,
            access: Access::Role(role),
            summary,
            query: &[],
            bodies: &[],
            answers: &[],
            is_change: !matches!(verb, Verb::Get),
            serve,
        }
    }

    pub const fn get(path: &'static str, role: Role, summary: &'static str, serve: Serve) -> Route {
        Route::new(Verb::Get, path, role, summary, serve)
    }

    pub const fn post(
        path: &'static str,
        role: Role,
        summary: &'static str,
        serve: Serve,
    ) -> Route {
        Route::new(Verb::Post, path, role, summary, serve)
    }

    pub const fn put(path: &'static str, role: Role, summary: &'static str, serve: Serve) -> Route {
        Route::new(Verb::Put, path, role, summary, serve)
    }

    pub const fn delete(
        path: &'static str,
        role: Role,
        summary: &'static str,
        serve: Serve,
    ) -> Route {
        Route::new(Verb::Delete, path, role, summary, serve)
    }

    /// Without a login.
    pub const fn for_anyone(mut self) -> Route {
        self.access = Access::Anyone;
        self
    }

    /// Changes nothing, whatever its method, unless the handler says so.
    pub const fn reads(mut self) -> Route {
        self.is_change = false;
        self
    }

    pub const fn query(mut self, query: &'static [Param]) -> Route {
        self.query = query;
        self
    }

    pub const fn bodies(mut self, bodies: &'static [Content]) -> Route {
        self.bodies = bodies;
        self
    }

    pub const fn answers(mut self, answers: &'static [Answer]) -> Route {
        self.answers = answers;
        self
    }

    /// Do clients of WSO2 DAS ask it, to whom refusals are said in their way?
    pub fn is_of_das(&self) -> bool {
        self.path.starts_with("/analytics/")
    }

    /// Does the path of a request lead here, as far as names of parameters are concerned?
    pub fn leads(&self, path: &str) -> bool {
        let path = path.strip_suffix('/').unwrap_or(path);
        let (mut own, mut asked) = (self.path.split('/'), path.split('/'));
        loop {
            match (own.next(), asked.next()) {
                (None, None) => return true,
                (Some(own), Some(asked)) if own == asked => {}
                (Some(own), Some(asked)) if own.starts_with('{') && !asked.is_empty() => {}
                _ => return false,
            }
        }
    }
}
