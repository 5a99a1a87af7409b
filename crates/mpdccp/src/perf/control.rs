//! Control datagrams between the two ends. They carry the parameters of the test and, at the end, the
//! results. Each consists of a reserved message number followed by JSON. The sender repeats each datagram
//! until it is answered.

use crate::perf::counts::{In, Tally};
use crate::perf::cpu::Share;
use crate::perf::message;
use crate::perf::sender::{Load, MAX_BURST};
use mpdccp_units::{Duration, Rate};
use serde::{Deserialize, Serialize};

/// Version of this protocol. The two ends must have the same version.
pub(crate) const VERSION: u32 = 1;
/// First bytes of a control datagram, in place of a message number. Message numbers are always smaller.
const PREFIX: [u8; 8] = *b"\xff\xff\xff\xffperf";
/// Size of the longest control datagram that is accepted.
const MAX_LEN: usize = 1200;
/// Size of the largest control datagram that carries part of the output. It fits into IP packets of 576
/// bytes.
const PART: usize = 480;
/// Longest test time that a client may request; the command line has the same limit.
const MAX_TIME_MS: u64 = 1_000_000_000;

/// The test that a client requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Test {
    /// The client sends.
    pub(crate) up: bool,
    /// The server sends.
    pub(crate) down: bool,
    /// The server sends messages back.
    #[serde(default)]
    pub(crate) echo: bool,
    /// Bytes of each message.
    pub(crate) size: usize,
    pub(crate) rate_bps: Option<u64>,
    /// Number of messages sent back to back; 0 means 1.
    #[serde(default)]
    pub(crate) burst: u32,
    pub(crate) messages: Option<u64>,
    pub(crate) time_ms: Option<u64>,
    /// Time at the start of the test to exclude from the results.
    #[serde(default)]
    pub(crate) omit_ms: u64,
    /// The client will ask for the server's output.
    #[serde(default)]
    pub(crate) server_output: bool,
}

impl Test {
    pub(crate) fn load(&self) -> Load {
        Load {
            size: self.size,
            rate: self.rate_bps.map(Rate::from_bps),
            burst: self.burst.max(1),
            // The omitted messages do not count, so the limit is set once the omitted time is over.
            messages: self.messages.filter(|_| self.omit_ms == 0),
            time: self.time_ms.map(|ms| Duration::from_millis(ms.saturating_add(self.omit_ms))),
        }
    }

    pub(crate) fn omit(&self) -> Duration {
        Duration::from_millis(self.omit_ms)
    }

    /// Returns whether this end supports the test. The request comes from the peer, so it may contain
    /// anything.
    fn is_possible(&self) -> bool {
        (message::MIN_LEN..=message::MAX_LEN).contains(&self.size)
            && self.rate_bps != Some(0)
            && self.burst <= MAX_BURST
            && self.time_ms.unwrap_or(0).max(self.omit_ms) <= MAX_TIME_MS
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Control {
    /// Client: requests this test.
    Hello { version: u32, test: Test },
    /// Server: accepts the test.
    Ready,
    /// Server: refuses the test, or ends it.
    Refused { why: String },
    /// Client: requests the server's output, starting at this byte.
    Output { from: usize },
    /// Server: sends a part of its output, and the total length of the output.
    Text { from: usize, total: usize, text: String },
    /// Either end: it has sent all its data.
    Done {
        #[serde(default)]
        sent: Option<Tally>,
        #[serde(default)]
        cpu: Option<Share>,
    },
    /// Answers `Done` with the counts of received messages and the CPU use.
    Results {
        received: In,
        #[serde(default)]
        cpu: Option<Share>,
    },
}

impl Control {
    /// Returns the part of the server's output that begins at `from` and fits into a control datagram.
    pub(crate) fn part(output: &str, from: usize) -> Control {
        let rest = output.get(from..).unwrap_or("");
        let (mut most, total) = (PART, output.len());
        loop {
            let part = Control::Text { from, total, text: rest[..rest.floor_char_boundary(most)].into() };
            // JSON escapes can make the text longer than a datagram, so try shorter parts.
            if part.write().len() <= PART || most < 8 {
                return part;
            }
            most /= 2;
        }
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let json = serde_json::to_vec(self).unwrap_or_default();
        [&PREFIX[..], &json].concat()
    }

    /// Parses a control datagram. Returns `None` if the datagram is not a control datagram, and an error if
    /// it is an invalid one. All strings in the result are limited in length and safe to print.
    pub(crate) fn read(bytes: &[u8]) -> Option<Result<Control, serde_json::Error>> {
        let json = bytes.strip_prefix(&PREFIX)?;
        let read = serde_json::from_slice(json.get(..MAX_LEN).unwrap_or(json));
        Some(match read {
            Ok(Control::Hello { test, .. }) if !test.is_possible() => {
                Err(serde::de::Error::custom("size, rate or time out of range"))
            }
            Ok(Control::Refused { why }) => Ok(Control::Refused { why: printable(&why) }),
            Ok(Control::Text { from, total, text }) => {
                // `from` counts bytes as the server sent them, so making the text printable must not change
                // its length.
                let shown: Vec<String> = text.split('\n').map(printable).collect();
                let same = shown.join("\n").len() == text.len();
                let text = if same { shown.join("\n") } else { "?".repeat(text.len()) };
                Ok(Control::Text { from, total, text })
            }
            other => other,
        })
    }
}

/// Replaces unprintable characters in a text from the peer.
fn printable(text: &str) -> String {
    let shown = |c: &char| matches!(c, '"' | '\'' | '\\') || c.escape_debug().len() == 1;
    text.chars().map(|c| if shown(&c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_a_client_are_bounded() {
        let possible = Test { down: true, size: 1200, ..Test::default() };
        for (test, ok) in [
            (possible.clone(), true),
            (
                Test {
                    size: message::MAX_LEN,
                    rate_bps: Some(1),
                    time_ms: Some(MAX_TIME_MS),
                    ..possible.clone()
                },
                true,
            ),
            (Test { size: 30_000_000_000, ..possible.clone() }, false),
            (Test { size: message::MAX_LEN + 1, ..possible.clone() }, false),
            (Test { size: message::MIN_LEN - 1, ..possible.clone() }, false),
            (Test { rate_bps: Some(0), ..possible.clone() }, false),
            (Test { burst: MAX_BURST, ..possible.clone() }, true),
            (Test { burst: MAX_BURST + 1, ..possible.clone() }, false),
            (Test { time_ms: Some(u64::MAX), ..possible.clone() }, false),
            (Test { omit_ms: u64::MAX, ..possible }, false),
        ] {
            let hello = Control::Hello { version: VERSION, test };
            assert_eq!(Control::read(&hello.write()).unwrap().is_ok(), ok, "{hello:?}");
        }
    }

    #[test]
    fn a_peers_words_do_not_rule_the_terminal() {
        let why = "\u{1b}]0;title\u{7} \u{9b}2J \u{202e}no: \"full\"".to_owned();
        let Some(Ok(Control::Refused { why })) = Control::read(&Control::Refused { why }.write()) else {
            panic!()
        };
        assert_eq!(why, "\u{fffd}]0;title\u{fffd} \u{fffd}2J \u{fffd}no: \"full\"");
    }

    #[test]
    fn output_travels_in_parts() {
        let output: String = (0..100).map(|n| format!("[{n:3}] \"quoted\" ä\n")).collect();
        let mut got = String::new();
        while got.len() < output.len() {
            let part = Control::part(&output, got.len()).write();
            assert!(part.len() <= PART, "{}", part.len());
            let Some(Ok(Control::Text { from, total, text })) = Control::read(&part) else { panic!() };
            assert_eq!((from, total), (got.len(), output.len()));
            got += &text;
        }
        assert_eq!(got, output);
        for from in [output.len(), output.len() + 1, usize::MAX] {
            let Control::Text { text, .. } = Control::part(&output, from) else { panic!() };
            assert_eq!(text, "");
        }
        let evil = Control::Text { from: 0, total: 9, text: "a\u{1b}[2J\n".into() };
        let Some(Ok(Control::Text { text, .. })) = Control::read(&evil.write()) else { panic!() };
        assert!(text.len() == 6 && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn says_what_it_means_and_survives_garbage() {
        let test = Test { up: true, size: 1200, time_ms: Some(10_000), omit_ms: 1_000, ..Test::default() };
        let hello = Control::Hello { version: VERSION, test: test.clone() }.write();
        let Some(Ok(Control::Hello { version: VERSION, test: read })) = Control::read(&hello) else {
            panic!("{}", String::from_utf8_lossy(&hello))
        };
        assert_eq!(read, test);
        assert_eq!(
            read.load().time,
            Some(Duration::from_secs(11)),
            "the omitted time is added to the duration"
        );
        for end in 8..hello.len() {
            assert!(matches!(Control::read(&hello[..end]), Some(Err(_))), "cut off at {end}");
        }
        assert!(Control::read(&hello[..7]).is_none() && Control::read(&[0; 100]).is_none());
        let long = [&PREFIX[..], &vec![b'['; 100_000]].concat();
        assert!(matches!(Control::read(&long), Some(Err(_))));
    }
}
