//! Records that are too long, and the others of their requests.
//!
//! librdkafka sends many records in one request, and a broker that finds a request too long refuses
//! all of it. A record that alone is as long as a request may be has its own: a refusal is about
//! it, and it is kept apart. Any other is sent again, by a client whose requests are shorter, and
//! with it all that was published after it, so that nothing overtakes it
//! (`enable.gapless.guarantee`).

use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::producer::{Producer as _, PurgeConfig};

use super::said;
use super::sink::{KafkaSink, is_permanent, look_after};
use connect::error::Error;
use connect::message::Undelivered;
use connect::option::number;

/// The client ends where a request is refused for ever: else what stands behind it overtakes those of
/// its records that are sent again.
pub(super) const GAPLESS: &str = "enable.gapless.guarantee";

const REQUEST: &str = "batch.size";
const RECORD: &str = "message.max.bytes";

/// What librdkafka allows where it is not told otherwise.
const BYTES: usize = 1_000_000;

/// The next client's requests are shorter by this factor.
const SHORTER: usize = 4;

/// What is on its way when a client ends is waited for: sent again, it could stand twice.
const ENDING: Duration = Duration::from_secs(10);

/// What an error says of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It would fail again.
    Refused,
    /// Its request was too long, in which there may have been others.
    TooLongTogether,
    /// Its request was refused for others.
    Innocent,
    /// The broker was not there in time.
    Away,
}

/// What a client has told of records.
#[derive(Default)]
pub(super) struct Told {
    pub failed: Vec<(u64, Undelivered)>,
    /// Records are to be sent again for which nobody but us has to know.
    pub is_again: bool,
    pub is_too_long: bool,
}

/// `request_bytes`: longer records have a request of their own.
pub(super) fn verdict(error: &KafkaError, bytes: usize, request_bytes: usize) -> Verdict {
    match error.rdkafka_error_code() {
        Some(Code::MessageSizeTooLarge) if bytes < request_bytes => Verdict::TooLongTogether,
        Some(Code::InvalidDifferentRecord) => Verdict::Innocent,
        _ if is_permanent(error) => Verdict::Refused,
        _ => Verdict::Away,
    }
}

/// Why the broker will never take a record of so many bytes.
pub(super) fn refusal(error: &KafkaError, bytes: usize) -> String {
    match error.rdkafka_error_code() {
        Some(Code::MessageSizeTooLarge) => too_long_there(bytes),
        _ => said(error),
    }
}

/// The same for one that the client does not even take.
pub(super) fn refusal_here(error: &KafkaError, bytes: usize) -> String {
    match error.rdkafka_error_code() {
        Some(Code::MessageSizeTooLarge) => too_long_here(bytes),
        _ => said(error),
    }
}

pub(super) fn too_long_there(bytes: usize) -> String {
    format!(
        "its {bytes} bytes are more than the broker takes: raise 'max.message.bytes' of the topic"
    )
}

pub(super) fn too_long_here(bytes: usize) -> String {
    format!(
        "its {bytes} bytes are more than the client sends: raise property 'max.request.size' of \
         option 'optional.configuration', and 'max.message.bytes' of the topic"
    )
}

/// How long the requests of several records may be.
pub(super) fn request_bytes(config: &ClientConfig) -> usize {
    let bytes = |name| config.get(name).and_then(number).unwrap_or(BYTES);
    bytes(REQUEST).min(bytes(RECORD))
}

/// Nothing overtakes what is sent again, where idempotence allows to know.
pub(super) fn keep_order(config: &mut ClientConfig) {
    if config.get("enable.idempotence") == Some("true") {
        config.set(GAPLESS, "true");
    }
}

impl KafkaSink {
    /// Takes what the client said, of which requests were to be no longer than `request_bytes`.
    pub(super) fn take_in(&mut self, told: Told, request_bytes: usize) {
        if told.is_too_long {
            self.shorten(request_bytes / SHORTER);
        }
        self.is_to_divide |= told.is_again;
        if told.failed.is_empty() {
            return;
        }
        if self.part.takes_part {
            self.failed.extend(told.failed);
            return;
        }
        let is_away = |entry: &(u64, Undelivered)| entry.1.error.is_unavailable();
        let (away, refused): (Vec<_>, Vec<_>) = told.failed.into_iter().partition(is_away);
        // Nothing of a transaction counts that one of its records is missing from.
        self.is_to_divide |= self.divides && self.is_transactional && !refused.is_empty();
        self.refused.extend(refused);
        // A client that ends tells of what waited before it tells of what was on its way.
        self.failed.extend(away);
        self.failed.sort_by_key(|(number, _)| *number);
        self.set_apart();
    }

    /// What was refused is not sent again.
    pub(super) fn set_apart(&mut self) {
        if self.is_transactional && !self.refused.is_empty() {
            let refused = &self.refused;
            let is_refused = |number: u64| refused.iter().any(|(other, _)| *other == number);
            self.failed.retain(|(number, _)| !is_refused(*number));
        }
    }

    fn shorten(&mut self, bytes: usize) {
        let bytes = bytes.max(1);
        if bytes >= request_bytes(&self.config) {
            return;
        }
        tracing::warn!(
            sink = self.name,
            bytes,
            "broker rejects requests of several records as too large; making them smaller \
             (property '{REQUEST}' of the sink sets their initial size)"
        );
        self.config.set(REQUEST, bytes.to_string());
    }

    /// Sends again what was refused for others, and what stands behind it, until the broker says no to
    /// single records only.
    pub(super) fn divide(&mut self) -> Result<(), Error> {
        // In an epoch the whole transaction is written again.
        while self.is_to_divide && !self.part.takes_part {
            self.end_client();
            self.is_to_divide = false;
            self.make_client()?;
            let sent = self.introduce().and_then(|()| self.send_again());
            if !self.is_to_divide {
                sent?;
            }
        }
        Ok(())
    }

    /// What waits in the client is taken back, what is on its way is waited for.
    fn end_client(&mut self) {
        if let Some(producer) = &self.producer {
            producer.purge(PurgeConfig::default().queue());
            let since = Instant::now();
            while producer.in_flight_count() > 0 && since.elapsed() < ENDING {
                producer.poll(look_after(since.elapsed()));
            }
        }
        self.give_up();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_about_a_record_only_where_no_other_can_have_been_with_it() {
        let error = |code| KafkaError::MessageProduction(code);
        let check = |code, bytes, expect| assert_eq!(verdict(&error(code), bytes, 1000), expect);
        check(Code::MessageSizeTooLarge, 999, Verdict::TooLongTogether);
        check(Code::MessageSizeTooLarge, 1000, Verdict::Refused);
        check(Code::InvalidRecord, 10, Verdict::Refused);
        check(Code::InvalidDifferentRecord, 10, Verdict::Innocent);
        check(Code::MessageTimedOut, 10, Verdict::Away);
    }

    #[test]
    fn a_request_is_no_longer_than_a_record_may_be() {
        let mut config = ClientConfig::new();
        assert_eq!(request_bytes(&config), BYTES);
        config.set(REQUEST, "70000");
        assert_eq!(request_bytes(&config), 70_000);
        config.set(RECORD, "2000");
        assert_eq!(request_bytes(&config), 2000);
    }
}
