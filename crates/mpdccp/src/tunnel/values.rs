//! Values of the configuration file with rules of their own; each complains with what it would have accepted.

use ipnet::IpNet;
use serde::de::{DeserializeOwned, IntoDeserializer};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// One of the words that are the variants of an enum. What is no text is no word: the complaint says which there are.
pub(crate) fn word<'de, D: Deserializer<'de>, T: DeserializeOwned>(d: D) -> Result<T, D::Error> {
    let text = match toml::Value::deserialize(d)? {
        toml::Value::String(text) => text,
        other => other.to_string(),
    };
    let d: serde::de::value::StringDeserializer<D::Error> = text.into_deserializer();
    T::deserialize(d)
}

/// How DCCP travels.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Carrier {
    /// In UDP (RFC 6773).
    #[default]
    Udp,
    /// As IP protocol 33.
    Raw,
}

/// A peer's public key.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub(crate) struct Key(pub(crate) dccp_secure::PublicKey);

impl TryFrom<String> for Key {
    type Error = dccp_secure::KeyError;
    fn try_from(text: String) -> Result<Key, Self::Error> {
        text.parse().map(Key)
    }
}

/// How records may be sealed.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "String")]
pub(crate) struct Cipher(pub(crate) dccp_secure::Aead);

impl TryFrom<String> for Cipher {
    type Error = dccp_secure::UnknownAead;
    fn try_from(name: String) -> Result<Cipher, Self::Error> {
        name.parse().map(Cipher)
    }
}

/// A text that must not be shown; it is wiped when it is dropped.
#[derive(Clone, Deserialize)]
#[serde(from = "String")]
pub(crate) struct Secret(pub(crate) zeroize::Zeroizing<String>);

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// An IP address with or without a port.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub(crate) struct HostPort {
    pub(crate) ip: IpAddr,
    pub(crate) port: Option<u16>,
}

impl HostPort {
    /// With the port, or `default` if it was left out.
    pub(crate) fn socket_addr(self, default: u16) -> SocketAddr {
        SocketAddr::new(self.ip, self.port.unwrap_or(default))
    }
}

impl FromStr for HostPort {
    type Err = String;
    fn from_str(s: &str) -> Result<HostPort, String> {
        if let Ok(addr) = s.parse::<SocketAddr>() {
            return Ok(HostPort { ip: addr.ip(), port: Some(addr.port()) });
        }
        let bracketed = s.strip_prefix('[').and_then(|s| s.strip_suffix(']'));
        if let Some(ip) = bracketed.and_then(|ip| ip.parse::<Ipv6Addr>().ok()) {
            return Ok(HostPort { ip: ip.into(), port: None });
        }
        let ip = s.parse().map_err(|_| {
            format!("`{s}` is no IP address, expected \"192.0.2.1:6511\", \"[2001:db8::1]:6511\", or without the port")
        })?;
        // 2001:db8::1:6511 is an address as it stands, but hardly the one that is meant.
        let with_port = s
            .rsplit_once(':')
            .filter(|(host, port)| host.parse::<Ipv6Addr>().is_ok() && port.parse::<u16>().is_ok());
        if let Some((host, port)) = with_port {
            return Err(format!(
                "`{s}` may or may not end in a port, expected \"[{host}]:{port}\" or \"[{s}]\""
            ));
        }
        Ok(HostPort { ip, port: None })
    }
}

impl TryFrom<String> for HostPort {
    type Error = String;
    fn try_from(s: String) -> Result<HostPort, String> {
        s.parse()
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.ip, port).fmt(f),
            None => self.ip.fmt(f),
        }
    }
}

/// Where a path leads: an address or a name, with or without a port.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub(crate) struct Remote {
    pub(crate) host: Host,
    pub(crate) port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Ip(IpAddr),
    Name(String),
}

impl Remote {
    /// Its address, unless it is a name.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        match self.host {
            Host::Ip(ip) => Some(ip),
            Host::Name(_) => None,
        }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        match &self.host {
            Host::Ip(_) => None,
            Host::Name(name) => Some(name),
        }
    }
}

impl TryFrom<String> for Remote {
    type Error = String;
    fn try_from(s: String) -> Result<Remote, String> {
        match s.parse() {
            Ok(HostPort { ip, port }) => return Ok(Remote { host: Host::Ip(ip), port }),
            Err(ambiguous) if s.parse::<IpAddr>().is_ok() => return Err(ambiguous),
            Err(_) => {}
        }
        let (name, port) = match s.split_once(':') {
            None => (s.as_str(), None),
            Some((name, port)) => (name, Some(port.parse().map_err(|_| no_remote(&s))?)),
        };
        let label = |l: &str| {
            (1..=63).contains(&l.len())
                && l.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        };
        let mut labels = name.strip_suffix('.').unwrap_or(name).split('.').peekable();
        // What has figures only is an address with a slip in it.
        let figures = labels.clone().all(|l| l.chars().all(|c| c.is_ascii_digit()));
        if name.len() > 253 || figures || labels.peek().is_none() || !labels.all(label) {
            return Err(no_remote(&s));
        }
        Ok(Remote { host: Host::Name(name.to_ascii_lowercase()), port })
    }
}

/// Where a path leads: the same place on each of the peer's servers, and which of them is in use.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "OneOrMore<Remote>")]
pub(crate) struct Remotes {
    all: Vec<Remote>,
    chosen: usize,
}

impl From<OneOrMore<Remote>> for Remotes {
    fn from(remotes: OneOrMore<Remote>) -> Remotes {
        Remotes { all: remotes.0, chosen: 0 }
    }
}

impl Remotes {
    /// One address.
    pub(crate) fn at(ip: IpAddr, port: Option<u16>) -> Remotes {
        Remotes { all: vec![Remote { host: Host::Ip(ip), port }], chosen: 0 }
    }

    /// How many servers there are.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Leads to another server from now on.
    pub(crate) fn choose(&mut self, server: usize) {
        self.chosen = server % self.all.len().max(1);
    }

    pub(crate) fn all(&self) -> &[Remote] {
        &self.all
    }
}

/// What was configured, whichever is in use.
impl PartialEq for Remotes {
    fn eq(&self, other: &Remotes) -> bool {
        self.all == other.all
    }
}

impl std::ops::Deref for Remotes {
    type Target = Remote;
    fn deref(&self) -> &Remote {
        &self.all[self.chosen]
    }
}

fn no_remote(s: &str) -> String {
    format!(
        "`{s}` is neither an IP address nor a host name, expected \"192.0.2.1:6511\", \"[2001:db8::1]:6511\", \
         \"vpn.example.org:6511\", or without the port"
    )
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.host, self.port) {
            (Host::Ip(ip), port) => HostPort { ip: *ip, port }.fmt(f),
            (Host::Name(name), Some(port)) => write!(f, "{name}:{port}"),
            (Host::Name(name), None) => f.write_str(name),
        }
    }
}

/// One value or a list.
#[derive(Clone, Debug)]
pub(crate) struct OneOrMore<T>(pub(crate) Vec<T>);

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

/// A list, or everything there is.
#[derive(Clone, Debug)]
pub(crate) enum AllOr<T> {
    Any,
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
                .map_err(|_| format!("`{text}` is no address, expected a list of addresses or \"any\""))
        };
        let values: Result<Vec<T>, String> = texts.into_iter().map(parse).collect();
        values.map(AllOr::Only).map_err(serde::de::Error::custom)
    }
}

/// MTU of the interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mtu {
    /// What the paths carry without fragments.
    #[default]
    Auto,
    Fixed(u16),
}

impl<'de> Deserialize<'de> for Mtu {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Mtu, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected \"auto\" or a number from 576 to 9000")]
        enum Text {
            Number(u16),
            Word(String),
        }
        match Text::deserialize(d)? {
            Text::Number(n) if (576..=9000).contains(&n) => Ok(Mtu::Fixed(n)),
            Text::Word(word) if word == "auto" => Ok(Mtu::Auto),
            _ => Err(serde::de::Error::custom("expected \"auto\" or a number from 576 to 9000")),
        }
    }
}

/// The largest IP packet of a path, bytes.
pub(crate) fn path_mtu<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u16>, D::Error> {
    let Some(wanted) = Option::<i64>::deserialize(d)? else { return Ok(None) };
    match u16::try_from(wanted) {
        Ok(mtu @ 576..=9000) => Ok(Some(mtu)),
        _ => Err(serde::de::Error::custom(format!("mtu = {wanted}, expected 576 to 9000"))),
    }
}

/// Priority of a path: 0 never, 1 standby, 2 overflow, 3 to 15 primary, larger preferred.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(try_from = "i64")]
pub(crate) struct Prio(pub(crate) u8);

impl Prio {
    pub(crate) const STANDBY: Prio = Prio(1);
    pub(crate) const OVERFLOW: Prio = Prio(2);
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

/// Most bits a second, such as "500k" or "12.5M".
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "toml::Value")]
pub(crate) struct RateLimit(pub(crate) units::Rate);

impl TryFrom<toml::Value> for RateLimit {
    type Error = String;
    fn try_from(value: toml::Value) -> Result<RateLimit, String> {
        match value.as_str() {
            Some(text) => crate::quantity::rate(text).map(RateLimit),
            None => Err(format!("{value} has no unit, expected a text such as \"10M\" or \"500k\"")),
        }
    }
}

/// Bytes of a month, such as "500MB" or "50GB".
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "toml::Value")]
pub(crate) struct Volume(pub(crate) u64);

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

/// Networks, as `allowed_ips` has them.
pub(crate) fn prefixes<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<IpNet>, D::Error> {
    let parse = |text: &String| {
        text.parse().map_err(|_| {
            let message = "expected one with its length, such as \"10.0.0.0/24\" or \"10.0.0.2/32\"";
            serde::de::Error::custom(format!("`{text}` is no prefix, {message}"))
        })
    };
    Vec::<String>::deserialize(d)?.iter().map(parse).collect()
}

fn no_volume(text: &str) -> String {
    format!("`{text}` is no volume, expected such as \"500MB\", \"50GB\" or \"1.5TB\"")
}

/// Number of a server, 0 to 16777215; 0 where nobody looks.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(try_from = "i64")]
pub(crate) struct ServerNumber(pub(crate) u32);

impl TryFrom<i64> for ServerNumber {
    type Error = String;
    fn try_from(n: i64) -> Result<ServerNumber, String> {
        let number = u32::try_from(n).ok().filter(|n| *n < 1 << 24);
        number.map(ServerNumber).ok_or_else(|| format!("{n} is no server number, expected 0 to 16777215"))
    }
}

/// How many threads serve: 1 to 64, or "auto" for as many as there are cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShardCount(pub(crate) u8);

const MOST_SHARDS: u8 = 64;

impl Default for ShardCount {
    fn default() -> ShardCount {
        ShardCount(1)
    }
}

impl<'de> Deserialize<'de> for ShardCount {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<ShardCount, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected \"auto\" or a number from 1 to 64")]
        enum Text {
            Number(u8),
            Word(String),
        }
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        match Text::deserialize(d)? {
            Text::Number(n) if (1..=MOST_SHARDS).contains(&n) => Ok(ShardCount(n)),
            Text::Word(word) if word == "auto" => {
                Ok(ShardCount(u8::try_from(cores()).unwrap_or(MOST_SHARDS).min(MOST_SHARDS)))
            }
            _ => Err(serde::de::Error::custom("expected \"auto\" or a number from 1 to 64")),
        }
    }
}

/// Day of the month, 1 to 28.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "i64")]
pub(crate) struct Day(pub(crate) u32);

impl Default for Day {
    fn default() -> Day {
        Day(1)
    }
}

impl TryFrom<i64> for Day {
    type Error = String;
    fn try_from(n: i64) -> Result<Day, String> {
        let day = u32::try_from(n).ok().filter(|day| (1..=28).contains(day));
        day.map(Day).ok_or_else(|| format!("{n} is no day that every month has, expected 1 to 28"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn remotes_are_addresses_or_names() {
        let read = |s: &str| Remote::try_from(s.to_owned());
        let name = |s: &str| Host::Name(s.to_owned());
        assert_eq!(read("192.0.2.1:9"), Ok(Remote { host: Host::Ip([192, 0, 2, 1].into()), port: Some(9) }));
        assert_eq!(read("::1"), Ok(Remote { host: Host::Ip("::1".parse().unwrap()), port: None }));
        assert_eq!(read("[2001:db8::1]"), read("2001:db8::1"));
        assert_eq!(read("1:2:3:4:5:6:7:8").unwrap().port, None);
        for either in ["2001:db8::1:6511", "::1:2"] {
            assert!(read(either).unwrap_err().contains(&format!("\"[{either}]\"")), "{either}");
        }
        assert_eq!(read("Hub.example.org:9"), Ok(Remote { host: name("hub.example.org"), port: Some(9) }));
        assert_eq!(read("localhost").unwrap().to_string(), "localhost");
        for wrong in
            ["", "192.0.2.300", "192.0.2.1:", "a b", "a..b", "hub:70000", "hub:", "1:2:3", ":9", "hub:9:9"]
        {
            assert!(read(wrong).unwrap_err().contains("neither"), "{wrong}");
        }
    }
}
