//! Offers and answers of permessage-deflate (RFC 7692, 7.1).

use super::WINDOW_MAX;

const NAME: &str = "permessage-deflate";

/// Bytes of an offer that is looked at, and offers in it.
const OFFER_BYTES_MAX: usize = 1024;
const OFFERS_MAX: usize = 16;

/// What both sides keep to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// Each message of the server stands for itself.
    pub server_alone: bool,
    /// Each message of the client does.
    pub client_alone: bool,
    /// Bits of the window of the server's messages, 8 to 15.
    pub server_bits: u8,
    /// Those of the client's.
    pub client_bits: u8,
}

/// What an offer or an answer says; `None` in the inner option: a parameter without a value.
#[derive(Clone, Copy, Default)]
struct Said {
    server_alone: bool,
    client_alone: bool,
    server_bits: Option<u8>,
    client_bits: Option<Option<u8>>,
}

impl Said {
    /// The parameters behind the extension's name; `None` where one is unknown, comes twice or cannot be.
    fn read(parameters: &str) -> Option<Said> {
        let mut said = Said::default();
        for parameter in parameters.split(';').skip(1) {
            let (name, value) = match parameter.split_once('=') {
                Some((name, value)) => (name.trim(), Some(unquoted(value.trim()))),
                None => (parameter.trim(), None),
            };
            let is_new = match (name, value) {
                ("server_no_context_takeover", None) => {
                    !std::mem::replace(&mut said.server_alone, true)
                }
                ("client_no_context_takeover", None) => {
                    !std::mem::replace(&mut said.client_alone, true)
                }
                ("server_max_window_bits", Some(value)) => {
                    said.server_bits.replace(bits(value)?).is_none()
                }
                ("client_max_window_bits", None) => said.client_bits.replace(None).is_none(),
                ("client_max_window_bits", Some(value)) => {
                    said.client_bits.replace(Some(bits(value)?)).is_none()
                }
                _ => return None,
            };
            if !is_new {
                return None;
            }
        }
        Some(said)
    }
}

fn unquoted(value: &str) -> &str {
    let inner = value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'));
    inner.unwrap_or(value)
}

/// 8 to 15, without a zero before it.
fn bits(value: &str) -> Option<u8> {
    match value.as_bytes() {
        [digit @ b'8'..=b'9'] => Some(digit - b'0'),
        [b'1', digit @ b'0'..=b'5'] => Some(10 + digit - b'0'),
        _ => None,
    }
}

fn is_named(extension: &str) -> bool {
    let name = extension.split(';').next().unwrap_or_default();
    name.trim().eq_ignore_ascii_case(NAME)
}

/// What a server agrees to, and answers, of what the headers `Sec-WebSocket-Extensions` of a client offer: the first
/// offer that can be met. Messages stand for themselves, in both directions, unless contexts are to be kept, which
/// take some 300 kB of each connection.
pub fn answer_to<'h>(
    headers: impl IntoIterator<Item = &'h str>,
    keeps_context: bool,
) -> Option<(Agreed, String)> {
    let offers = headers
        .into_iter()
        .filter(|header| header.len() <= OFFER_BYTES_MAX)
        .flat_map(|header| header.split(','));
    let mut offers = offers.take(OFFERS_MAX).filter(|offer| is_named(offer));
    let said = offers.find_map(Said::read)?;
    let agreed = Agreed {
        server_alone: said.server_alone || !keeps_context,
        client_alone: said.client_alone || !keeps_context,
        server_bits: said.server_bits.unwrap_or(WINDOW_MAX),
        // It may send with any window: the largest holds it.
        client_bits: WINDOW_MAX,
    };
    let mut answer = NAME.to_owned();
    if agreed.server_alone {
        answer.push_str("; server_no_context_takeover");
    }
    if agreed.client_alone {
        answer.push_str("; client_no_context_takeover");
    }
    if let Some(bits) = said.server_bits {
        answer.push_str(&format!("; server_max_window_bits={bits}"));
    }
    Some((agreed, answer))
}

/// What a client offers; see [`answer_to`] for `keeps_context`.
pub fn offer(keeps_context: bool) -> &'static str {
    match keeps_context {
        true => "permessage-deflate; client_max_window_bits",
        false => {
            "permessage-deflate; server_no_context_takeover; client_no_context_takeover; client_max_window_bits"
        }
    }
}

/// What a server has agreed to of [`offer`]; `None`: nothing is compressed.
///
/// # Errors
/// It answers what was not offered: the connection must not go on (RFC 6455, 4.1).
pub fn confirmed<'h>(
    headers: impl IntoIterator<Item = &'h str>,
    was_offered: bool,
    keeps_context: bool,
) -> Result<Option<Agreed>, String> {
    let extensions = headers.into_iter().flat_map(|header| header.split(','));
    let mut extensions = extensions.filter(|extension| !extension.trim().is_empty());
    let Some(extension) = extensions.next() else {
        return Ok(None);
    };
    let wrong = |why: &str| {
        Err(format!(
            "the server answers with extension '{}', {why}",
            extension.trim()
        ))
    };
    if !was_offered || !is_named(extension) || extensions.next().is_some() {
        return wrong("which was not offered");
    }
    let Some(said) = Said::read(extension) else {
        return wrong("whose parameters cannot be");
    };
    // A value of its own is needed here.
    if said.client_bits == Some(None) {
        return wrong("whose parameters cannot be");
    }
    if !keeps_context && !said.server_alone {
        return wrong("without the 'server_no_context_takeover' that was asked for");
    }
    Ok(Some(Agreed {
        server_alone: said.server_alone,
        client_alone: said.client_alone || !keeps_context,
        server_bits: said.server_bits.unwrap_or(WINDOW_MAX),
        client_bits: said.client_bits.flatten().unwrap_or(WINDOW_MAX),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    // rules: S1
    #[test]
    fn the_first_offer_that_can_be_met_is_taken() {
        let answered = |offers: &[&str], keeps| {
            answer_to(offers.iter().copied(), keeps).map(|(_, answer)| answer)
        };
        let both = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
        assert_eq!(
            answered(&["permessage-deflate"], false).as_deref(),
            Some(both)
        );
        assert_eq!(
            answered(&["Permessage-Deflate"], true).as_deref(),
            Some(NAME)
        );
        let bits = "permessage-deflate; server_max_window_bits=9";
        assert_eq!(
            answered(&["x-webkit, permessage-deflate;client_max_window_bits ; server_max_window_bits = \"9\""], true)
                .as_deref(),
            Some(bits)
        );
        for bad in [
            "permessage-deflate; server_max_window_bits",
            "permessage-deflate; server_max_window_bits=7",
            "permessage-deflate; server_max_window_bits=16",
            "permessage-deflate; server_max_window_bits=09",
            "permessage-deflate; server_no_context_takeover=1",
            "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
            "permessage-deflate; more",
            "permessage-bzip2",
            "",
        ] {
            assert_eq!(answered(&[bad], true), None, "{bad}");
            let second = format!("{bad}, permessage-deflate");
            assert_eq!(answered(&[&second], true).as_deref(), Some(NAME), "{bad}");
            assert_eq!(
                answered(&[bad, "permessage-deflate"], true).as_deref(),
                Some(NAME)
            );
        }
    }

    // rules: S2
    #[test]
    fn an_answer_keeps_to_the_offer() {
        let of = |answer: &'static str, keeps| confirmed([answer], true, keeps);
        assert_eq!(confirmed([], true, false), Ok(None));
        let agreed = of(
            "permessage-deflate; server_no_context_takeover; client_max_window_bits=10",
            false,
        );
        let agreed = agreed.expect("it was offered").expect("it is there");
        assert_eq!((agreed.client_bits, agreed.server_bits), (10, 15));
        assert!(agreed.server_alone && agreed.client_alone);
        assert!(of("permessage-deflate", true).is_ok());
        for bad in [
            "permessage-deflate",
            "permessage-deflate; client_max_window_bits; server_no_context_takeover",
            "permessage-deflate; server_no_context_takeover, permessage-deflate",
            "permessage-bzip2",
        ] {
            assert!(of(bad, false).is_err(), "{bad}");
        }
        assert!(confirmed(["permessage-deflate"], false, true).is_err());
        // What we offer, we would take.
        for keeps in [true, false] {
            assert!(answer_to([offer(keeps)], keeps).is_some());
        }
    }
}
