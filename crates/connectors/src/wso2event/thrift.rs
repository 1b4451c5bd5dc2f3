//! The methods of the Thrift services.

use std::borrow::Cow;

use super::connection::{Asked, EXPIRED, Server};
use super::receiver::Untaken;
use databridge::bundle::split_session;
use databridge::definition::Definition;
use databridge::thrift::{self, Answer, Fields, Message};

/// Numbers of the exceptions of the methods.
mod exception {
    pub const AUTHENTICATION: i16 = 1;
    pub const OTHER_DEFINITION: i16 = 1;
    pub const MALFORMED_DEFINITION: i16 = 2;
    pub const DEFINITION: i16 = 3;
    pub const EXPIRED_TO_DEFINE: i16 = 4;
    pub const NO_DEFINITION: i16 = 1;
    pub const EXPIRED_TO_FIND: i16 = 2;
    pub const UNDEFINED: i16 = 1;
    pub const EXPIRED_TO_PUBLISH: i16 = 2;
    pub const EXPIRED_TO_DELETE: i16 = 1;
}

impl Server {
    /// Writes the answer to a call; false: there is nothing to be said, and the connection ends.
    ///
    /// # Errors
    /// It is no call, in words.
    pub async fn answer_thrift(&self, asked: Asked<'_>, out: &mut Vec<u8>) -> Result<bool, String> {
        let bytes = asked.bytes.clone();
        let call = Message::read(&bytes)?;
        if !call.is_call() {
            return Err("a message is no call".to_owned());
        }
        let Some(answer) = self.called(&call, asked).await else {
            return Ok(false);
        };
        thrift::write_answer(out, call.name, call.sequence, &answer);
        Ok(true)
    }

    async fn called(&self, call: &Message<'_>, asked: Asked<'_>) -> Option<Answer> {
        let fields = call.fields;
        let first = fields.text(1).unwrap_or_default();
        let answer = match (call.name, self.tls.is_some()) {
            ("publish", _) => return self.publish(fields, asked).await,
            ("connect", true) => {
                let password = fields.text(2).unwrap_or_default();
                match self.log_in(first, password, asked.peer).await {
                    Ok(session) => Answer::Text(session),
                    Err(cause) => Answer::Exception(exception::AUTHENTICATION, cause.to_owned()),
                }
            }
            ("disconnect", true) => {
                self.databridge.logins.close(first);
                Answer::Void
            }
            ("defineStream", _) if !self.is_open(first) => expired(exception::EXPIRED_TO_DEFINE),
            ("defineStream", _) => self.define(fields.text(2).unwrap_or_default()),
            ("findStreamId", _) if !self.is_open(first) => expired(exception::EXPIRED_TO_FIND),
            ("findStreamId", _) => self.find(fields),
            ("deleteStreamById" | "deleteStreamByNameVersion", _) if !self.is_open(first) => {
                expired(exception::EXPIRED_TO_DELETE)
            }
            // Streams are those of the apps, which no client takes away.
            ("deleteStreamById" | "deleteStreamByNameVersion", _) => Answer::Bool(false),
            _ => Answer::UnknownMethod,
        };
        Some(answer)
    }

    async fn publish(&self, fields: Fields<'_>, asked: Asked<'_>) -> Option<Answer> {
        let bundle = fields.get(1).map_or(&[][..], |field| field.value);
        let Some((_, bundle)) = split_session(bundle).filter(|(session, _)| self.is_open(session))
        else {
            return Some(expired(exception::EXPIRED_TO_PUBLISH));
        };
        let bundle = match bundle {
            Cow::Borrowed(bundle) => asked.bytes.slice_ref(bundle),
            Cow::Owned(bundle) => bundle.into(),
        };
        match self
            .databridge
            .publish(bundle, asked.account, asked.stopped)
            .await
        {
            Ok(()) => Some(Answer::Void),
            Err(Untaken::Refused(cause)) => Some(Answer::Exception(exception::UNDEFINED, cause)),
            Err(Untaken::Gone) => None,
        }
    }

    fn define(&self, text: &str) -> Answer {
        let definition = match Definition::parse(text) {
            Ok(definition) => definition,
            Err(cause) => return Answer::Exception(exception::MALFORMED_DEFINITION, cause),
        };
        let (id, streams) = (definition.id(), self.databridge.streams());
        let Some(stream) = streams.get(&id) else {
            let said = format!("no app takes stream '{id}'; {}", streams.said());
            return Answer::Exception(exception::DEFINITION, said);
        };
        match stream.layout.difference(&definition.wire()) {
            None => Answer::Text(id),
            Some(difference) => {
                let said = format!("stream '{id}' is another here: its {difference}");
                Answer::Exception(exception::OTHER_DEFINITION, said)
            }
        }
    }

    fn find(&self, fields: Fields<'_>) -> Answer {
        let [name, version] = [2, 3].map(|number| fields.text(number).unwrap_or_default());
        let (id, streams) = (format!("{name}:{version}"), self.databridge.streams());
        match streams.get(&id) {
            Some(_) => Answer::Text(id),
            None => {
                let said = format!("no app takes stream '{id}'; {}", streams.said());
                Answer::Exception(exception::NO_DEFINITION, said)
            }
        }
    }
}

fn expired(number: i16) -> Answer {
    Answer::Exception(number, EXPIRED.to_owned())
}
