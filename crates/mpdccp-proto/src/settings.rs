//! The settings of a session that its user chooses, by name: the same in the tunnel's file, `perf`'s flags and scenarios.

use crate::names::Named;
#[cfg(feature = "serde")]
use crate::names::by_name;
use crate::policy::Policy;
use crate::queue::QueueConfig;
use crate::reorder::ReorderConfig;
use crate::sched::SchedulerKind;
use crate::{Fallback, SessionConfig};
use alloc::vec::Vec;
use dccp_proto::{CcOptions, Config};
use units::Duration;

/// Declares each setting once: its name in files, its type, which knows what is allowed, and its default.
macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $default:expr;)*) => {
        /// What a user may choose of a session.
        #[derive(Clone, Debug)]
        pub struct Settings {
            $($(#[$doc])* pub $name: $type,)*
        }

        impl Default for Settings {
            fn default() -> Settings {
                Settings { $($name: $default,)* }
            }
        }

        impl Settings {
            /// The names of all, as files have them.
            pub const KEYS: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Sets the one called `key`.
            ///
            /// # Errors
            /// What is allowed, if that is not, and the names of all if there is none of that name.
            #[cfg(feature = "serde")]
            pub fn set<'de, D: serde::Deserializer<'de>>(&mut self, key: &str, value: D) -> Result<(), D::Error> {
                match key {
                    $(stringify!($name) => self.$name = serde::Deserialize::deserialize(value)?,)*
                    _ => return Err(serde::de::Error::custom(crate::names::unknown("setting", key, Self::KEYS.iter().copied()))),
                }
                Ok(())
            }
        }
    };
}

settings! {
    /// Congestion control of what this end sends.
    ccid: Ccid = Ccid(5);
    /// Which rules of the CCID apply.
    cc_variant: Variant = Variant::Tuned;
    /// What windows count.
    units: WindowUnit = WindowUnit::Bytes;
    /// Ack Ratio that the peer is asked for at the beginning (RFC 4340 section 11.3).
    ack_ratio: AckRatio = AckRatio(Config::default().ack_ratio);
    /// Which path a packet takes.
    scheduler: SchedulerKind = SchedulerKind::default();
    /// Packets that go otherwise, by rules.
    steer: Policy = Policy::default();
    /// How arriving packets are put in order.
    reordering: ReorderConfig = ReorderConfig::default();
    /// The send queue.
    queue: QueueConfig = QueueConfig::of_ip_packets();
    /// Send again, on whichever path is best, what a path lost, where the peer is of our kind and waits for it.
    repair: bool = true;
    /// The peer keeps back what is behind a loss until the repair came.
    wait_for_repairs: bool = true;
    /// Paths that share a bottleneck together take the part of one flow there.
    coupling: bool = true;
    /// Keep each inner flow in order by itself, where the peer does too: four bytes on each packet.
    flow_order: bool = false;
    /// How long a path may be silent before it is probed.
    keepalive: Seconds = Seconds(12);
    /// How long a session lives on without any path that is up.
    survive: Seconds = Seconds(60);
    /// How long connections that ended are remembered.
    time_wait: Seconds = Seconds(240);
    /// Most paths of a session at a time.
    max_paths: MaxPaths = MaxPaths(8);
    /// What to do with a peer that does not speak Multipath DCCP.
    fallback: Fallback = Fallback::Refuse;
}

impl Settings {
    /// A session with these settings. Whatever CCID the peer prefers for what it sends is accepted.
    pub fn session(&self) -> SessionConfig {
        let Ccid(ccid) = self.ccid;
        let rx_ccids: Vec<u8> = core::iter::once(ccid).chain(Ccid::known().filter(|n| *n != ccid)).collect();
        SessionConfig {
            connection: Config {
                tx_ccids: alloc::vec![ccid],
                rx_ccids,
                ack_ratio: self.ack_ratio.0,
                cc: CcOptions {
                    packets: self.units == WindowUnit::Packets,
                    draft: self.cc_variant == Variant::Draft,
                    ..CcOptions::default()
                },
                // Tells lost data from lost Acks to the reordering, and costs nothing: MP_SEQ would be padded by as many bytes.
                ndp_count: true,
                ..Config::default()
            },
            fallback: self.fallback,
            scheduler: self.scheduler,
            policy: self.steer.clone(),
            reorder: self.reordering,
            queue: self.queue,
            repair: self.repair,
            wait_for_repairs: self.wait_for_repairs,
            coupling: self.coupling,
            flow_order: self.flow_order,
            keepalive: self.keepalive.into(),
            survive: self.survive.into(),
            time_wait: self.time_wait.into(),
            max_paths: self.max_paths.0,
            ..SessionConfig::default()
        }
    }
}

/// A congestion control that this stack has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(try_from = "i64"))]
pub struct Ccid(pub u8);

impl Ccid {
    /// The numbers of all.
    pub fn known() -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(|n| dccp_proto::ccid::is_known(*n))
    }
}

impl TryFrom<i64> for Ccid {
    type Error = alloc::string::String;
    fn try_from(n: i64) -> Result<Ccid, Self::Error> {
        let known = u8::try_from(n).ok().filter(|n| dccp_proto::ccid::is_known(*n));
        known.map(Ccid).ok_or_else(|| crate::names::unknown("CCID", n, Ccid::known()))
    }
}

/// An Ack Ratio that can be asked for: not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(try_from = "i64"))]
pub struct AckRatio(pub u16);

impl TryFrom<i64> for AckRatio {
    type Error = &'static str;
    fn try_from(n: i64) -> Result<AckRatio, Self::Error> {
        u16::try_from(n).ok().filter(|n| *n > 0).map(AckRatio).ok_or("expected 1 to 65535")
    }
}

/// Whole seconds, at least one and at most an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(try_from = "i64"))]
pub struct Seconds(pub u16);

impl TryFrom<i64> for Seconds {
    type Error = &'static str;
    fn try_from(n: i64) -> Result<Seconds, Self::Error> {
        u16::try_from(n)
            .ok()
            .filter(|n| (1..=3600).contains(n))
            .map(Seconds)
            .ok_or("expected 1 to 3600 seconds")
    }
}

impl From<Seconds> for Duration {
    fn from(Seconds(n): Seconds) -> Duration {
        Duration::from_secs(n.into())
    }
}

/// A number of paths: 1 to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(try_from = "i64"))]
pub struct MaxPaths(pub usize);

impl TryFrom<i64> for MaxPaths {
    type Error = &'static str;
    fn try_from(n: i64) -> Result<MaxPaths, Self::Error> {
        usize::try_from(n).ok().filter(|n| (1..=64).contains(n)).map(MaxPaths).ok_or("expected 1 to 64")
    }
}

/// Which rules a CCID follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variant {
    /// Ours.
    #[default]
    Tuned,
    /// To the letter of the document that defines it.
    Draft,
}

impl Named for Variant {
    const WHAT: &'static str = "variant";
    fn all() -> impl Iterator<Item = Variant> {
        [Variant::Tuned, Variant::Draft].into_iter()
    }
    fn name(self) -> &'static str {
        match self {
            Variant::Tuned => "tuned",
            Variant::Draft => "draft",
        }
    }
    fn about(self) -> &'static str {
        match self {
            Variant::Tuned => "ours",
            Variant::Draft => "to the letter of the document that defines it",
        }
    }
}

#[cfg(feature = "serde")]
by_name!(Variant);

/// What windows count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "lowercase"))]
pub enum WindowUnit {
    /// IP bytes.
    #[default]
    Bytes,
    /// Packets, whatever their size.
    Packets,
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};
    use serde::de::IntoDeserializer;
    use serde::de::value::Error;

    fn set(settings: &mut Settings, key: &str, value: &str) -> Result<(), String> {
        let d: serde::de::value::StrDeserializer<'_, Error> = value.into_deserializer();
        settings.set(key, d).map_err(|e| e.to_string())
    }

    #[test]
    fn each_is_set_by_its_name_and_says_what_is_allowed() {
        let mut s = Settings::default();
        for (key, value) in [
            ("scheduler", "rr"),
            ("reordering", "passive"),
            ("cc_variant", "draft"),
            ("units", "packets"),
            ("fallback", "plain"),
        ] {
            assert!(Settings::KEYS.contains(&key));
            set(&mut s, key, value).unwrap();
            assert!(set(&mut s, key, "best").unwrap_err().contains(value), "{key}");
        }
        let i64 = |n: i64| -> serde::de::value::I64Deserializer<Error> { n.into_deserializer() };
        s.set("ccid", i64(2)).unwrap();
        s.set("ack_ratio", i64(4)).unwrap();
        assert!(s.set("ccid", i64(1)).unwrap_err().to_string().contains("2, "));
        assert!(s.set("ack_ratio", i64(0)).is_err());
        for (key, n, wrong) in
            [("keepalive", 20, 0), ("survive", 300, 3601), ("time_wait", 200, -1), ("max_paths", 16, 65)]
        {
            s.set(key, i64(n)).unwrap();
            assert!(s.set(key, i64(wrong)).unwrap_err().to_string().contains("expected 1 to"), "{key}");
        }
        assert!(set(&mut s, "speed", "high").unwrap_err().contains("scheduler"));

        let cfg = s.session();
        assert_eq!((cfg.scheduler.name(), cfg.reorder), ("rr", ReorderConfig::passive()));
        assert_eq!(
            (cfg.connection.tx_ccids, cfg.connection.ack_ratio, cfg.fallback),
            (alloc::vec![2], 4, Fallback::Plain)
        );
        assert_eq!((cfg.keepalive, cfg.survive), (Duration::from_secs(20), Duration::from_secs(300)));
        assert_eq!((cfg.time_wait, cfg.max_paths), (Duration::from_secs(200), 16));
        assert!(cfg.connection.cc.draft && cfg.connection.cc.packets);
        assert_eq!(cfg.connection.rx_ccids[0], 2);
        assert!(Ccid::known().all(|n| cfg.connection.rx_ccids.contains(&n)));
    }

    #[test]
    fn defaults_are_those_of_a_tunnel() {
        let cfg = Settings::default().session();
        assert_eq!((cfg.scheduler.name(), cfg.repair, cfg.coupling), ("auto", true, true));
        assert_eq!(cfg.reorder, ReorderConfig::adaptive(Duration::from_millis(250)));
        let of_all = SessionConfig::default();
        assert_eq!((cfg.keepalive, cfg.survive), (of_all.keepalive, of_all.survive));
        assert_eq!((cfg.time_wait, cfg.max_paths), (of_all.time_wait, of_all.max_paths));
        assert_eq!((cfg.connection.tx_ccids, cfg.queue), (alloc::vec![5], QueueConfig::of_ip_packets()));
    }
}
