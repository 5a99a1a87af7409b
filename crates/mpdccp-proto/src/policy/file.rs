//! Policy rules in files.

use super::{Criteria, MAX_RULES, Network, Otherwise, PathName, Policy, Rule};
use crate::names::unknown;
use crate::sched::SchedulerKind;
use crate::session::MAX_PER_FEC_PACKET;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
use core::net::IpAddr;
use core::ops::RangeInclusive;
use core::str::FromStr;
use mpdccp_units::Duration;
use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Policy, D::Error> {
        struct Rules;
        impl<'de> Visitor<'de> for Rules {
            type Value = Policy;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tables such as [[policy_rule]] with dscp = \"ef\" and scheduler = \"redundant\"")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Policy, A::Error> {
                let mut rules = Vec::new();
                loop {
                    let number = rules.len() + 1;
                    let wrong = |e: String| A::Error::custom(format!("rule {number}: {}", e.trim_end()));
                    let Some(text) = seq.next_element::<Text>().map_err(|e| wrong(e.to_string()))? else {
                        return Ok(Policy(rules));
                    };
                    if number > MAX_RULES {
                        return Err(wrong(format!("too many rules; expected at most {MAX_RULES}")));
                    }
                    rules.push(text.rule(number).map_err(wrong)?);
                }
            }
        }
        d.deserialize_seq(Rules)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    name: Option<String>,
    #[serde(default)]
    dscp: List<Dscp>,
    #[serde(default)]
    protocol: List<Protocol>,
    #[serde(default)]
    ports: List<Ports>,
    #[serde(default)]
    networks: List<Network>,
    scheduler: Option<SchedulerKind>,
    #[serde(default)]
    paths: List<Name>,
    #[serde(default)]
    priorities: BTreeMap<String, i64>,
    max_rtt_ms: Option<u64>,
    max_loss_pct: Option<f32>,
    #[serde(default)]
    otherwise: Otherwise,
    fec: Option<u8>,
    #[serde(default)]
    drop: bool,
    tcp: Option<Tcp>,
}

/// Whether matching TCP connections are carried as packets or as streams.
#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Tcp {
    Packets,
    Streams,
}

impl Text {
    fn rule(self, number: usize) -> Result<Rule, String> {
        let mut priorities = Vec::new();
        for (path, n) in self.priorities {
            let prio = u8::try_from(n).ok().filter(|n| *n <= 15);
            let prio = prio.ok_or_else(|| format!("priorities: {path} = {n}, expected 0 to 15"))?;
            priorities.push((PathName::of(&path), prio));
        }
        if self.max_rtt_ms == Some(0) {
            return Err("max_rtt_ms = 0, expected 1 or more".into());
        }
        if self.max_loss_pct.is_some_and(|most| !(0.0..=100.0).contains(&most)) {
            return Err("max_loss_pct: expected 0 to 100".into());
        }
        if self.fec.is_some_and(|n| !(1..=MAX_PER_FEC_PACKET).contains(&n)) {
            return Err(format!(
                "fec: expected 1 to {MAX_PER_FEC_PACKET}, the number of packets that each FEC packet protects"
            ));
        }
        let rule = Rule {
            name: self.name.unwrap_or_else(|| format!("rule-{number}")),
            criteria: Criteria {
                dscp: self.dscp.0.into_iter().map(|Dscp(n)| n).collect(),
                protocols: self.protocol.0.into_iter().map(|Protocol(n)| n).collect(),
                ports: self.ports.0.into_iter().map(|Ports(range)| range).collect(),
                networks: self.networks.0,
            },
            scheduler: self.scheduler,
            paths: self.paths.0.into_iter().map(|Name(name)| PathName::of(&name)).collect(),
            priorities,
            max_rtt: self.max_rtt_ms.map(Duration::from_millis),
            max_loss: self.max_loss_pct.map(|pct| pct / 100.0),
            otherwise: self.otherwise,
            fec: self.fec,
            drop: self.drop,
            no_streams: self.tcp == Some(Tcp::Packets),
        };
        let same = Rule {
            name: rule.name.clone(),
            criteria: rule.criteria.clone(),
            otherwise: rule.otherwise,
            ..Rule::default()
        };
        if rule == same {
            return Err(concat!(
                "the rule has no action; set scheduler, paths, priorities, max_rtt_ms, max_loss_pct, fec, ",
                "tcp = \"packets\" or drop"
            )
            .into());
        }
        if rule.drop && rule != (Rule { drop: true, ..same }) {
            return Err("drop = true cannot be combined with other actions".into());
        }
        Ok(rule)
    }
}

/// One value or a list of values, each a number or a word.
struct List<T>(Vec<T>);

impl<T> Default for List<T> {
    fn default() -> List<T> {
        List(Vec::new())
    }
}

/// One value as written in the file.
enum Value {
    Number(i64),
    Word(String),
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Value, D::Error> {
        struct One;
        impl Visitor<'_> for One {
            type Value = Value;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a word")
            }
            fn visit_i64<E: Error>(self, n: i64) -> Result<Value, E> {
                Ok(Value::Number(n))
            }
            fn visit_u64<E: Error>(self, n: u64) -> Result<Value, E> {
                Ok(Value::Number(i64::try_from(n).unwrap_or(i64::MAX)))
            }
            fn visit_str<E: Error>(self, word: &str) -> Result<Value, E> {
                Ok(Value::Word(word.to_owned()))
            }
        }
        d.deserialize_any(One)
    }
}

impl<'de, T: TryFrom<Value, Error = String>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<List<T>, D::Error> {
        struct Several<T>(PhantomData<T>);
        impl<'de, T: TryFrom<Value, Error = String>> Visitor<'de> for Several<T> {
            type Value = List<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, a word, or a list of them")
            }
            fn visit_i64<E: Error>(self, n: i64) -> Result<List<T>, E> {
                T::try_from(Value::Number(n)).map(|one| List(alloc::vec![one])).map_err(E::custom)
            }
            fn visit_str<E: Error>(self, word: &str) -> Result<List<T>, E> {
                T::try_from(Value::Word(word.to_owned())).map(|one| List(alloc::vec![one])).map_err(E::custom)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<List<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(value) = seq.next_element::<Value>()? {
                    all.push(T::try_from(value).map_err(A::Error::custom)?);
                }
                if all.is_empty() {
                    return Err(A::Error::custom("empty list; remove the key"));
                }
                Ok(List(all))
            }
        }
        d.deserialize_any(Several(PhantomData))
    }
}

/// A Differentiated Services Code Point, 0 to 63, given as a number or by its name, such as `ef`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dscp(pub u8);

/// DSCP names of RFC 2474, 2597, 3246, 5865 and 8622, with their values.
const DSCPS: &[(&str, u8)] = &[
    ("be", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("va", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

impl TryFrom<Value> for Dscp {
    type Error = String;
    fn try_from(value: Value) -> Result<Dscp, String> {
        match value {
            Value::Number(n) => n.to_string().parse(),
            Value::Word(word) => word.parse(),
        }
    }
}

impl FromStr for Dscp {
    type Err = String;
    fn from_str(text: &str) -> Result<Dscp, String> {
        let number = || text.parse().ok().filter(|n| *n < 64);
        let named = || DSCPS.iter().find(|(name, _)| text == *name).map(|(_, n)| *n);
        number().or_else(named).map(Dscp).ok_or_else(|| {
            let names: Vec<&str> = DSCPS.iter().map(|(name, _)| *name).collect();
            format!("dscp: expected 0 to 63 or one of {}", names.join(", "))
        })
    }
}

struct Protocol(u8);

const PROTOCOLS: &[(&str, u8)] = &[
    ("icmp", 1),
    ("tcp", 6),
    ("udp", 17),
    ("dccp", 33),
    ("gre", 47),
    ("esp", 50),
    ("icmpv6", 58),
    ("sctp", 132),
];

impl TryFrom<Value> for Protocol {
    type Error = String;
    fn try_from(value: Value) -> Result<Protocol, String> {
        match value {
            Value::Number(n) => {
                u8::try_from(n).map(Protocol).map_err(|_| format!("protocol {n}, expected 0 to 255"))
            }
            Value::Word(word) => PROTOCOLS
                .iter()
                .find(|(name, _)| word == *name)
                .map(|(_, n)| Protocol(*n))
                .ok_or_else(|| unknown("protocol", word, PROTOCOLS.iter().map(|(name, _)| name))),
        }
    }
}

struct Ports(RangeInclusive<u16>);

impl TryFrom<Value> for Ports {
    type Error = String;
    fn try_from(value: Value) -> Result<Ports, String> {
        let wrong = || "ports: expected numbers from 0 to 65535 or ranges such as \"5000-5100\"".to_owned();
        match value {
            Value::Number(n) => u16::try_from(n).map(|n| Ports(n..=n)).map_err(|_| wrong()),
            Value::Word(word) => {
                let (first, last) = word.split_once('-').unwrap_or((&word, &word));
                let port = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong());
                let range = port(first)?..=port(last)?;
                if range.is_empty() { Err(wrong()) } else { Ok(Ports(range)) }
            }
        }
    }
}

impl TryFrom<Value> for Network {
    type Error = String;
    fn try_from(value: Value) -> Result<Network, String> {
        let read = |word: &str| {
            let (address, prefix) = word.split_once('/').map_or((word, None), |(a, p)| (a, Some(p)));
            let address: IpAddr = address.parse().ok()?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            let prefix = prefix.map_or(Some(most), |p| p.parse().ok()).filter(|p| *p <= most)?;
            Some(Network { address, prefix })
        };
        match &value {
            Value::Word(word) => read(word),
            Value::Number(_) => None,
        }
        .ok_or_else(|| {
            "networks: expected a prefix or an address, such as \"192.0.2.0/24\" or \"2001:db8::/32\"".into()
        })
    }
}

struct Name(String);

impl TryFrom<Value> for Name {
    type Error = String;
    fn try_from(value: Value) -> Result<Name, String> {
        match value {
            Value::Word(name) if !name.is_empty() => Ok(Name(name)),
            _ => Err("paths: expected a list of path names".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Policy, String> {
        #[derive(Deserialize)]
        struct File {
            policy_rule: Policy,
        }
        toml::from_str::<File>(text).map(|file| file.policy_rule).map_err(|e| e.message().to_string())
    }

    #[test]
    fn a_rule_is_read_whole() {
        let rules = read(
            r#"
            [[policy_rule]]
            name = "calls"
            dscp = ["ef", 44]
            protocol = "udp"
            ports = [5060, "10000-20000"]
            networks = ["10.0.0.0/8", "2001:db8::1"]
            scheduler = "redundant"
            paths = ["dsl", "lte"]
            priorities = { dsl = 12, lte = 3 }
            max_rtt_ms = 80
            max_loss_pct = 1.5
            otherwise = "wait"
            fec = 4
            [[policy_rule]]
            protocol = 47
            drop = true
            [[policy_rule]]
            ports = 22
            tcp = "packets"
            "#,
        )
        .unwrap();
        let [calls, gre, ssh] = &rules.0[..] else { panic!("{rules:?}") };
        assert_eq!(calls.name, "calls");
        let c = &calls.criteria;
        assert_eq!((&c.dscp[..], &c.protocols[..]), (&[46, 44][..], &[17][..]));
        assert_eq!(c.ports, [5060..=5060, 10_000..=20_000]);
        assert_eq!(c.networks.iter().map(|n| n.prefix).collect::<Vec<_>>(), [8, 128]);
        assert_eq!(calls.scheduler.map(crate::names::Named::name), Some("redundant"));
        assert_eq!(calls.paths, [PathName::of("dsl"), PathName::of("lte")]);
        assert_eq!(calls.priorities, [(PathName::of("dsl"), 12), (PathName::of("lte"), 3)]);
        assert_eq!((calls.max_rtt, calls.max_loss), (Some(Duration::from_millis(80)), Some(0.015)));
        assert_eq!((calls.otherwise, calls.fec), (Otherwise::Wait, Some(4)));
        assert_eq!((ssh.no_streams, gre.no_streams, calls.no_streams), (true, false, false));
        assert_eq!((gre.name.as_str(), gre.drop, &gre.criteria.protocols[..]), ("rule-2", true, &[47][..]));
    }

    #[test]
    fn errors_name_the_allowed_values() {
        for (rule, word) in [
            ("dscp = \"ef\"", "no action"),
            ("dscp = 64\ndrop = true", "0 to 63"),
            ("dscp = \"gold\"\ndrop = true", "af11"),
            ("protocol = \"smtp\"\ndrop = true", "udp"),
            ("protocol = 256\ndrop = true", "0 to 255"),
            ("ports = 65536\ndrop = true", "65535"),
            ("ports = \"9-8\"\ndrop = true", "5000-5100"),
            ("networks = \"10.0.0.0/33\"\ndrop = true", "192.0.2.0/24"),
            ("paths = []", "remove the key"),
            ("priorities = { a = 16 }", "0 to 15"),
            ("scheduler = \"best\"", "redundant"),
            ("fec = 17", "1 to 16"),
            ("max_rtt_ms = 0", "1 or more"),
            ("max_loss_pct = 101.0", "0 to 100"),
            ("otherwise = \"stop\"\npaths = \"a\"", "wait"),
            ("drop = true\nscheduler = \"rr\"", "cannot be combined"),
            ("port = 5", "ports"),
            ("tcp = \"streams\"", "no action"),
            ("tcp = \"udp\"", "packets"),
        ] {
            let wrong =
                read(&format!("[[policy_rule]]\ndrop = true\n[[policy_rule]]\n{rule}\n")).unwrap_err();
            assert!(wrong.contains("rule 2: ") && wrong.contains(word), "{rule}: {wrong}");
        }
        assert!(read(&"[[policy_rule]]\ndrop = true\n".repeat(17)).unwrap_err().contains("rule 17"));
        assert!(read("policy_rule = 3").is_err());
    }
}
