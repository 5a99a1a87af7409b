//! What both ends say to each other beside the messages: what is to be done, and in the end what arrived. Datagrams of JSON behind a
//! number that no message has; each is repeated until it is answered.

use crate::perf::report::In;
use crate::perf::sender::Load;
use serde::{Deserialize, Serialize};
use units::{Duration, Rate};

/// Of the exchange; ends of different versions do not work together.
pub(crate) const VERSION: u32 = 1;
/// Stands where messages have their number, which is always smaller.
const PREFIX: [u8; 8] = *b"\xff\xff\xff\xffperf";
/// Longest accepted.
const MAX_LEN: usize = 1200;

/// What a client asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Test {
    /// The client sends.
    pub(crate) up: bool,
    /// The server sends.
    pub(crate) down: bool,
    /// The server sends back what it gets.
    #[serde(default)]
    pub(crate) echo: bool,
    /// Bytes of each message.
    pub(crate) size: usize,
    pub(crate) rate_bps: Option<u64>,
    pub(crate) messages: Option<u32>,
    pub(crate) time_ms: Option<u64>,
    /// How long at the beginning nothing is counted.
    #[serde(default)]
    pub(crate) omit_ms: u64,
}

impl Test {
    pub(crate) fn load(&self) -> Load {
        Load {
            size: self.size,
            rate: self.rate_bps.map(Rate::from_bps),
            messages: self.messages,
            time: self.time_ms.map(|ms| Duration::from_millis(ms.saturating_add(self.omit_ms))),
        }
    }

    pub(crate) fn omit(&self) -> Duration {
        Duration::from_millis(self.omit_ms)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Control {
    /// Client: what is to be done.
    Hello { version: u32, test: Test },
    /// Server: it begins.
    Ready,
    /// Server: it will not.
    Refused { why: String },
    /// Whoever sends: that was all.
    Done,
    /// The answer: what arrived.
    Results { received: In },
}

impl Control {
    pub(crate) fn write(&self) -> Vec<u8> {
        let json = serde_json::to_vec(self).unwrap_or_default();
        [&PREFIX[..], &json].concat()
    }

    /// `None` if it is no control datagram; an error if it is one that makes no sense here.
    pub(crate) fn read(bytes: &[u8]) -> Option<Result<Control, serde_json::Error>> {
        let json = bytes.strip_prefix(&PREFIX)?;
        Some(serde_json::from_slice(json.get(..MAX_LEN).unwrap_or(json)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_it_means_and_survives_garbage() {
        let test = Test { up: true, size: 1200, time_ms: Some(10_000), omit_ms: 1_000, ..Test::default() };
        let hello = Control::Hello { version: VERSION, test: test.clone() }.write();
        let Some(Ok(Control::Hello { version: VERSION, test: read })) = Control::read(&hello) else {
            panic!("{}", String::from_utf8_lossy(&hello))
        };
        assert_eq!(read, test);
        assert_eq!(read.load().time, Some(Duration::from_secs(11)), "counted after what is left out");
        for end in 8..hello.len() {
            assert!(matches!(Control::read(&hello[..end]), Some(Err(_))), "cut off at {end}");
        }
        assert!(Control::read(&hello[..7]).is_none() && Control::read(&[0; 100]).is_none());
        let long = [&PREFIX[..], &vec![b'['; 100_000]].concat();
        assert!(matches!(Control::read(&long), Some(Err(_))));
    }
}
