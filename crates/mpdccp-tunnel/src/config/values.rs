//! Types of values in the configuration file. Each parse error lists the allowed values.

use ipnet::IpNet;
use mpdccp_units::Rate;
use serde::de::{DeserializeOwned, IntoDeserializer};
use serde::{Deserialize, Deserializer};
use std::ops::{Deref, RangeInclusive};
use std::str::FromStr;

/// Parses a word that names a variant of an enum. The error for any other value lists the words.
pub(crate) fn word<'de, D: Deserializer<'de>, T: DeserializeOwned>(d: D) -> Result<T, D::Error> {
    let text = match toml::Value::deserialize(d)? {
        toml::Value::String(text) => text,
        other => other.to_string(),
    };
    let d: serde::de::value::StringDeserializer<D::Error> = text.into_deserializer();
    T::deserialize(d)
}

/// Does the same as [`word`] for an optional key.
pub(crate) fn some_word<'de, D: Deserializer<'de>, T: DeserializeOwned>(d: D) -> Result<Option<T>, D::Error> {
    word(d).map(Some)
}

/// How the tunnel carries TCP connections.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Tcp {
    /// Unchanged, as packets.
    #[default]
    Packets,
    /// As streams: both ends of the tunnel terminate TCP connections and carry their data in streams.
    Streams,
}

/// Encapsulation of DCCP.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Encapsulation {
    /// In UDP (RFC 6773).
    #[default]
    Udp,
    /// As IP protocol 33.
    Raw,
    /// In TLS over TCP.
    Tls,
    /// In UDP, or in TLS while UDP gets no answer. A server accepts both.
    Auto,
}

impl Encapsulation {
    /// Returns whether packets may be sent in TLS.
    pub fn has_tls(self) -> bool {
        matches!(self, Encapsulation::Tls | Encapsulation::Auto)
    }
}

/// A peer's public key.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct Key(pub dccp_secure::PublicKey);

impl TryFrom<String> for Key {
    type Error = dccp_secure::KeyError;
    fn try_from(text: String) -> Result<Key, Self::Error> {
        text.parse().map(Key)
    }
}

/// Cipher for records.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub struct Cipher(pub dccp_secure::Aead);

impl TryFrom<String> for Cipher {
    type Error = dccp_secure::UnknownAead;
    fn try_from(name: String) -> Result<Cipher, Self::Error> {
        name.parse().map(Cipher)
    }
}

/// A secret string. It never appears in debug output, and is wiped from memory when dropped.
#[derive(Clone, Deserialize, PartialEq, Eq)]
#[serde(from = "String")]
pub struct Secret(pub zeroize::Zeroizing<String>);

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret(text.into())
    }
}

mpdccp_units::hidden!(Secret);

/// Inner addresses of the interface: given in the file, or assigned by the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Addresses {
    /// Whether the server assigns the addresses.
    pub auto: bool,
    /// The current addresses.
    pub nets: Vec<IpNet>,
}

impl Addresses {
    /// Returns whether both values mean the same thing. The addresses themselves may differ if they are
    /// assigned by the server.
    pub(crate) fn is_as(&self, other: &Addresses) -> bool {
        self.auto == other.auto && (self.auto || self.nets == other.nets)
    }
}

impl Deref for Addresses {
    type Target = [IpNet];
    fn deref(&self) -> &[IpNet] {
        &self.nets
    }
}

impl<'de> Deserialize<'de> for Addresses {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Addresses, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected \"auto\" or a list such as [\"10.0.0.1/24\"]")]
        enum Text {
            Word(String),
            List(Vec<String>),
        }
        let wrong = |text: &str| {
            let message = format!("`{text}` is not an address with a prefix length, such as \"10.0.0.1/24\"");
            serde::de::Error::custom(message)
        };
        match Text::deserialize(d)? {
            Text::Word(word) if word == "auto" => Ok(Addresses { auto: true, nets: Vec::new() }),
            Text::Word(word) => Err(serde::de::Error::custom(format!(
                "invalid value `{word}`; expected \"auto\" or a list such as [\"10.0.0.1/24\"]"
            ))),
            Text::List(list) => {
                let nets = list.iter().map(|text| text.parse().map_err(|_| wrong(text)));
                Ok(Addresses { auto: false, nets: nets.collect::<Result<_, _>>()? })
            }
        }
    }
}

/// One value or a list.
#[derive(Clone, Debug)]
pub struct OneOrMore<T>(pub Vec<T>);

impl<T> Default for OneOrMore<T> {
    fn default() -> OneOrMore<T> {
        OneOrMore(Vec::new())
    }
}

impl<'de, T: TryFrom<String, Error = String>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<OneOrMore<T>, D::Error> {
        let texts = match Strings::deserialize(d)? {
            Strings::One(text) => vec![text],
            Strings::Many(texts) => texts,
        };
        if texts.is_empty() {
            return Err(serde::de::Error::custom("the list is empty"));
        }
        let values: Result<Vec<T>, String> = texts.into_iter().map(T::try_from).collect();
        values.map(OneOrMore).map_err(serde::de::Error::custom)
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
enum Strings {
    One(String),
    Many(Vec<String>),
}

/// A list of values, or the word that stands for any value.
#[derive(Clone, Debug)]
pub enum AllOr<T> {
    /// Any value.
    Any,
    /// Only these values.
    Only(Vec<T>),
}

impl<'de, T: FromStr> Deserialize<'de> for AllOr<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<AllOr<T>, D::Error> {
        let texts = match Strings::deserialize(d)? {
            Strings::One(text) if text == "any" => return Ok(AllOr::Any),
            Strings::One(text) => vec![text],
            Strings::Many(texts) => texts,
        };
        let parse = |text: String| {
            text.parse()
                .map_err(|_| format!("`{text}` is not an address; expected a list of addresses or \"any\""))
        };
        let values: Result<Vec<T>, String> = texts.into_iter().map(parse).collect();
        values.map(AllOr::Only).map_err(serde::de::Error::custom)
    }
}

/// MTU of the interface.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(try_from = "toml::Value")]
pub enum Mtu {
    /// Size of the largest inner packet that the paths carry without fragmentation.
    #[default]
    Auto,
    /// A fixed size, bytes.
    Fixed(u16),
}

impl Mtu {
    /// The sizes that a file may set.
    pub(crate) const SIZES: RangeInclusive<u16> = 576..=9000;
}

impl TryFrom<toml::Value> for Mtu {
    type Error = &'static str;
    fn try_from(value: toml::Value) -> Result<Mtu, Self::Error> {
        let size = value.as_integer().and_then(|n| u16::try_from(n).ok());
        match (size.filter(|size| Mtu::SIZES.contains(size)), value.as_str()) {
            (Some(size), _) => Ok(Mtu::Fixed(size)),
            (_, Some("auto")) => Ok(Mtu::Auto),
            _ => Err("expected \"auto\" or a number from 576 to 9000"),
        }
    }
}

/// Selects the peers whose `allowed_ips` are routed into the interface.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(try_from = "toml::Value")]
pub enum Routes {
    /// `false`: no peers.
    None,
    /// `true`: all peers.
    #[default]
    All,
    /// `"sessions"`: peers that have a session with a working path.
    Sessions,
}

impl TryFrom<toml::Value> for Routes {
    type Error = String;
    fn try_from(value: toml::Value) -> Result<Routes, String> {
        match (value.as_bool(), value.as_str()) {
            (Some(true), _) => Ok(Routes::All),
            (Some(false), _) => Ok(Routes::None),
            (_, Some("sessions")) => Ok(Routes::Sessions),
            _ => Err(format!("routes = {value}, expected true, false or \"sessions\"")),
        }
    }
}

/// Parses the size in bytes of a path's largest IP packet.
pub(crate) fn path_mtu<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u16>, D::Error> {
    let Some(wanted) = Option::<i64>::deserialize(d)? else { return Ok(None) };
    match u16::try_from(wanted) {
        Ok(mtu @ 576..=9000) => Ok(Some(mtu)),
        _ => Err(serde::de::Error::custom(format!("mtu = {wanted}, expected 576 to 9000"))),
    }
}

/// ECN field of outer headers.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum OuterEcn {
    /// The path's congestion control sets the field, and reacts to marks itself.
    #[default]
    Own,
    /// Copied from the inner header (normal mode of RFC 6040).
    Copy,
    /// Not ECN-capable (compatibility mode of RFC 6040).
    None,
}

/// DSCP of outer headers.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "toml::Value")]
pub enum OuterDscp {
    /// Copied from the inner header.
    Copy,
    /// This fixed value.
    Pinned(u8),
}

impl Default for OuterDscp {
    fn default() -> OuterDscp {
        OuterDscp::Pinned(0)
    }
}

impl TryFrom<toml::Value> for OuterDscp {
    type Error = &'static str;
    fn try_from(value: toml::Value) -> Result<OuterDscp, Self::Error> {
        match (value.as_integer(), value.as_str()) {
            (Some(n @ 0..64), _) => Ok(OuterDscp::Pinned(n as u8)),
            (_, Some("copy")) => Ok(OuterDscp::Copy),
            _ => Err("expected \"copy\" or a number from 0 to 63"),
        }
    }
}

/// Priority of a path: 0 never, 1 standby, 2 overflow, 3 to 15 primary.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(try_from = "i64")]
pub struct Prio(pub u8);

impl Prio {
    /// Used only while no other path is up.
    pub const STANDBY: Prio = Prio(1);
    /// Used for traffic that exceeds the capacity of the primary paths.
    pub const OVERFLOW: Prio = Prio(2);
}

impl Default for Prio {
    fn default() -> Prio {
        Prio(3)
    }
}

impl TryFrom<i64> for Prio {
    type Error = String;
    fn try_from(n: i64) -> Result<Prio, String> {
        u8::try_from(n)
            .ok()
            .filter(|n| *n <= 15)
            .map(Prio)
            .ok_or_else(|| format!("priority {n}, expected 0 to 15"))
    }
}

/// Rate limit in bits per second, such as "500k" or "12.5M".
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "toml::Value")]
pub struct RateLimit(pub Rate);

impl TryFrom<toml::Value> for RateLimit {
    type Error = String;
    fn try_from(value: toml::Value) -> Result<RateLimit, String> {
        match value.as_str() {
            Some(text) => rate(text).map(RateLimit),
            None => Err(format!("{value} has no unit; examples: \"10M\", \"500k\"")),
        }
    }
}

/// Parses a rate such as "10 Mbit/s", "12.5M" or "500k". A number without a unit is in bit/s.
///
/// # Errors
/// If the value is not a rate, is 0, or exceeds 1 Tbit/s. The error names the value and gives examples.
pub fn rate(text: &str) -> Result<Rate, String> {
    let rate = text.parse().ok().filter(|rate| *rate > Rate::ZERO);
    rate.ok_or_else(|| format!("invalid rate `{text}`; examples: \"10 Mbit/s\", 10M, 500k"))
}

/// Monthly volume in bytes, such as "500MB" or "50GB".
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "toml::Value")]
pub struct Volume(pub u64);

impl TryFrom<toml::Value> for Volume {
    type Error = String;
    fn try_from(value: toml::Value) -> Result<Volume, String> {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let (number, factor) = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6)]
            .iter()
            .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))
            .ok_or_else(|| no_volume(&text))?;
        let bytes = number.trim().parse::<f64>().ok().map(|n| n * factor);
        let bytes = bytes.filter(|n| (1.0..=1e18).contains(n)).ok_or_else(|| no_volume(&text))?;
        Ok(Volume(bytes as u64))
    }
}

/// Parses networks in the syntax of `allowed_ips`.
pub(crate) fn prefixes<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<IpNet>, D::Error> {
    let parse = |text: &String| {
        text.parse().map_err(|_| {
            let message = "examples: \"10.0.0.0/24\", \"10.0.0.2/32\"";
            serde::de::Error::custom(format!("`{text}` is not a prefix; {message}"))
        })
    };
    Vec::<String>::deserialize(d)?.iter().map(parse).collect()
}

fn no_volume(text: &str) -> String {
    format!("invalid volume `{text}`; examples: \"500MB\", \"50GB\", \"1.5TB\"")
}

/// Server number, 1 to 16777215; 0 means that the server has no number.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(try_from = "i64")]
pub struct ServerNumber(pub u32);

impl TryFrom<i64> for ServerNumber {
    type Error = String;
    fn try_from(n: i64) -> Result<ServerNumber, String> {
        let number = u32::try_from(n).ok().filter(|n| *n < 1 << 24);
        number.map(ServerNumber).ok_or_else(|| format!("invalid server number {n}, expected 0 to 16777215"))
    }
}

/// Number of threads of a server, 1 to 64. `"auto"` means the number of cores, which [`super::Config::parse`]
/// receives as a parameter.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "toml::Value")]
pub struct ShardCount(pub u8);

impl ShardCount {
    /// `"auto"`, until the number of cores is known.
    pub(super) const AUTO: ShardCount = ShardCount(0);
    /// The largest allowed number.
    pub(super) const MOST: u8 = 64;
}

impl Default for ShardCount {
    fn default() -> ShardCount {
        ShardCount(1)
    }
}

impl TryFrom<toml::Value> for ShardCount {
    type Error = &'static str;
    fn try_from(value: toml::Value) -> Result<ShardCount, Self::Error> {
        match (value.as_integer(), value.as_str()) {
            (Some(n @ 1..=64), _) => Ok(ShardCount(n as u8)),
            (_, Some("auto")) => Ok(ShardCount::AUTO),
            _ => Err("expected \"auto\" or a number from 1 to 64"),
        }
    }
}

/// Day of the month, 1 to 28.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "i64")]
pub struct Day(pub u32);

impl Default for Day {
    fn default() -> Day {
        Day(1)
    }
}

impl TryFrom<i64> for Day {
    type Error = String;
    fn try_from(n: i64) -> Result<Day, String> {
        let day = u32::try_from(n).ok().filter(|day| (1..=28).contains(day));
        day.map(Day).ok_or_else(|| format!("invalid day {n}, expected 1 to 28"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        assert_eq!(rate("12.5M"), Ok(Rate::from_bps(12_500_000)));
        assert_eq!(rate("12.5 Mbit/s"), Ok(Rate::from_bps(12_500_000)));
        assert_eq!(rate("800"), Ok(Rate::from_bps(800)));
        for wrong in ["", "M", "-1M", "0", "1T", "1e20", "NaN"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn volumes_and_days() {
        let read = |s: &str| Volume::try_from(toml::Value::from(s));
        assert_eq!(read("50GB"), Ok(Volume(50_000_000_000)));
        assert_eq!(read("1.5 TB"), Ok(Volume(1_500_000_000_000)));
        for wrong in ["", "GB", "50", "50G", "-1GB", "0MB", "NaNGB", "1e30TB"] {
            assert!(read(wrong).unwrap_err().contains("50GB"), "{wrong}");
        }
        assert_eq!(
            (Day::try_from(28), Day::try_from(0).is_err(), Day::try_from(29).is_err()),
            (Ok(Day(28)), true, true)
        );
    }
}
