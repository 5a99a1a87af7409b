//! The session settings that users choose by name. The tunnel's file, the `perf` flags, scenarios and the
//! library all have the same settings.

use crate::SessionConfig;
use crate::names::Named;
#[cfg(feature = "serde")]
use crate::names::by_name;
use crate::policy::Policy;
use crate::queue::QueueConfig;
use crate::reorder::ReorderConfig;
use crate::sched::SchedulerKind;
use dccp_proto::Config;
use mpdccp_units::Duration;

/// A setting, as described in docs/keys.md.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Name of the setting in the tunnel's file and in scenarios.
    pub name: &'static str,
    /// The setting's effect.
    pub help: &'static str,
    /// Allowed values as written in files, each in backquotes.
    pub values: &'static str,
    /// Default for tunnels and scenarios, as written in files; empty for none.
    pub default: &'static str,
    /// The `mpdccp perf` flag and the method of the library's `Options` that set it; empty for none.
    pub elsewhere: [&'static str; 2],
    /// Whether reloading the tunnel's file also changes running sessions.
    pub live: bool,
}

impl Setting {
    const NONE: Setting =
        Setting { name: "", help: "", values: "", default: "", elsewhere: ["", ""], live: false };
}

/// Declares each setting once: help, name, type (which validates the value), default, entry in the reference,
/// and how it changes a [`SessionConfig`].
macro_rules! settings {
    ($($(#[doc = $help:literal])* $name:ident: $type:ty = $value:expr,
       $($field:ident: $info:expr,)*
       |$session:ident, $arg:pat_param| $apply:expr;)*) => {
        /// Session settings that a user may choose.
        #[derive(Clone, Debug)]
        pub struct Settings {
            $($(#[doc = $help])* pub $name: $type,)*
        }

        impl Default for Settings {
            fn default() -> Settings {
                Settings { $($name: $value,)* }
            }
        }

        impl Settings {
            /// All settings, for docs/keys.md.
            #[allow(clippy::needless_update)] // an entry may set all fields
            pub const ALL: &'static [Setting] = &[$(Setting {
                name: stringify!($name),
                help: concat!($($help),*),
                $($field: $info,)*
                ..Setting::NONE
            }),*];

            /// Names of all settings in files.
            pub const KEYS: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Sets the setting called `key`.
            ///
            /// # Errors
            /// The value is not allowed, or no setting has that name; the error lists the allowed values or
            /// names.
            #[cfg(feature = "serde")]
            pub fn set<'de, D: serde::Deserializer<'de>>(&mut self, key: &str, value: D) -> Result<(), D::Error> {
                match key {
                    $(stringify!($name) => self.$name = serde::Deserialize::deserialize(value)?,)*
                    _ => return Err(serde::de::Error::custom(crate::names::unknown("setting", key, Self::KEYS.iter().copied()))),
                }
                Ok(())
            }

            /// Applies the settings to a session's configuration.
            fn apply(&self, session: &mut SessionConfig) {
                $({
                    let ($session, $arg) = (&mut *session, self.$name.clone());
                    $apply;
                })*
            }
        }
    };
}

settings! {
    /// Congestion control for sending: 2 TCP-like, 3 TFRC, 4 TFRC for small packets, 5 BBR, 7 CUBIC, 250
    /// BBRv3, 252 Prague for L4S. The numbers 5, 7, 250 and 252 are not standardised.
    ccid: Ccid = Ccid(5),
        values: "`2`, `3`, `4`, `5`, `7`, `250`, `252`",
        default: "5",
        elsewhere: ["--ccid", "Options::ccid"],
        |session, Ccid(ccid)| {
            session.connection.tx_ccids = alloc::vec![ccid];
            // The peer may use any CCID for the half-connection on which it sends.
            session.connection.rx_ccids = core::iter::once(ccid).chain(Ccid::known().filter(|n| *n != ccid)).collect();
        };
    /// Variant of CCIDs 5 and 250: tuned, or exactly as specified in their drafts.
    cc_variant: Variant = Variant::Tuned,
        values: "`\"tuned\"`, `\"draft\"`",
        default: "\"tuned\"",
        elsewhere: ["--cc-variant", ""],
        |session, variant| session.connection.cc.draft = variant == Variant::Draft;
    /// Initial Ack Ratio that this end requests (RFC 4340 section 11.3): 1 to 65535.
    ack_ratio: AckRatio = AckRatio(Config::default().ack_ratio),
        values: "`1` to `65535`",
        default: "2",
        |session, AckRatio(ratio)| session.connection.ack_ratio = ratio;
    /// Scheduler, which chooses the path of each packet that this end sends, see
    /// [schedulers.md](schedulers.md).
    scheduler: SchedulerKind = SchedulerKind::default(),
        values: "`\"auto\"`, `\"cpf\"`, `\"acpf\"`, `\"rr\"`, `\"weighted-rr\"`, `\"srtt\"`, `\"otias\"`, `\"ecf\"`, `\"blest\"`, `\"redundant\"`, `\"handover\"`",
        default: "\"auto\"",
        elsewhere: ["--scheduler", "Options::scheduler"],
        live: true,
        |session, scheduler| session.scheduler = scheduler;
    /// Rules that choose other paths for some packets, by DSCP, protocol, ports or networks; one
    /// `[[policy_rule]]` for each rule, see [schedulers.md](schedulers.md#rules).
    policy_rule: Policy = Policy::default(),
        live: true,
        |session, policy| session.policy = policy;
    /// Reordering of received packets, see [reordering.md](reordering.md).
    reordering: ReorderConfig = ReorderConfig::default(),
        values: "`\"passive\"`, `\"active-fixed\"`, `\"adaptive\"`, `{ kind = \"active-fixed\", timeout_ms = 100, proven = false }`, `{ kind = \"adaptive\", max_ms = 250 }`, `{ kind = \"equalised\", max_ms = 250 }`",
        default: "{ kind = \"adaptive\", max_ms = 250 }",
        elsewhere: ["--reordering", "Options::reordering"],
        |session, reordering| session.reorder = reordering;
    /// Limits and discipline of the send queue. At a limit the oldest packets are dropped and counted.
    /// `fq-codel` serves inner flows in turn and signals congestion early: it marks ECN-capable packets and
    /// drops others. It lets packets wait up to 250 ms if paths have long round-trip times. `fifo` does none
    /// of this.
    queue: QueueConfig = QueueConfig::of_ip_packets(),
        values: "`{ max_ms = 100, max_bytes = 4194304, max_packets = 4096, discipline = \"fq-codel\" }`, `{ discipline = \"fifo\" }`",
        default: "{ max_ms = 100, max_bytes = 4194304, max_packets = 4096, discipline = \"fq-codel\" }",
        elsewhere: ["--queue", "Options::queue"],
        |session, queue| session.queue = queue;
    /// Retransmit lost packets on the best path if the peer waits for retransmissions.
    repair: bool = true,
        values: "`true`, `false`",
        default: "true",
        |session, repair| session.repair = repair;
    /// Tell the peer to hold packets behind a loss until the retransmission arrives. If off, retransmissions
    /// are delivered out of order, see [reordering.md](reordering.md#flows-that-tolerate-loss).
    wait_for_repairs: bool = true,
        values: "`true`, `false`",
        default: "true",
        |session, wait| session.wait_for_repairs = wait;
    /// Couple paths that share a bottleneck, as detected from their round-trip times: together they take the
    /// share of one flow, see [coupling.md](coupling.md).
    coupling: bool = true,
        values: "`true`, `false`",
        default: "true",
        |session, coupling| session.coupling = coupling;
    /// Probe a path after this time without packets, 1 to 3600 s, or after a quarter of that time if another
    /// path carries data. Probes keep NAT bindings alive and detect dead paths. A server waits twice as long.
    keepalive: Seconds = Seconds(Duration::from_secs(12)),
        values: "`1` to `3600`",
        default: "12",
        elsewhere: ["", "Options::keepalive"],
        |session, Seconds(keepalive)| session.keepalive = keepalive;
    /// How long a session survives with no path up, 1 to 3600 s.
    survive: Seconds = Seconds(Duration::from_secs(60)),
        values: "`1` to `3600`",
        default: "60",
        elsewhere: ["--rcv-timeout", "Options::survive"],
        |session, Seconds(survive)| session.survive = survive;
    /// Maximum number of paths of a session, 1 to 64; further paths are refused.
    max_paths: MaxPaths = MaxPaths(8),
        values: "`1` to `64`",
        default: "8",
        |session, MaxPaths(n)| session.max_paths = n;
}

impl Settings {
    /// Defaults for carrying an application's datagrams instead of IP packets. The application limits the
    /// queue itself.
    pub fn of_datagrams() -> Settings {
        Settings { queue: QueueConfig::unbounded(), ..Settings::default() }
    }

    /// Returns the configuration of a session with these settings.
    pub fn session(&self) -> SessionConfig {
        let mut session = SessionConfig::default();
        // With NDP Count, the reorderer can tell lost data from lost Acks. The option costs no bytes, because
        // it takes the place of padding after MP_SEQ.
        session.connection.ndp_count = true;
        self.apply(&mut session);
        session
    }
}

/// A congestion control of this stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(try_from = "i64"))]
pub struct Ccid(pub u8);

impl Ccid {
    /// Returns the numbers of all CCIDs.
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

/// A requested Ack Ratio, which must not be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(try_from = "i64"))]
pub struct AckRatio(pub u16);

impl TryFrom<i64> for AckRatio {
    type Error = &'static str;
    fn try_from(n: i64) -> Result<AckRatio, Self::Error> {
        u16::try_from(n).ok().filter(|n| *n > 0).map(AckRatio).ok_or("expected 1 to 65535")
    }
}

/// A time in whole seconds in files, from one second to an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(try_from = "i64"))]
pub struct Seconds(pub Duration);

impl TryFrom<i64> for Seconds {
    type Error = &'static str;
    fn try_from(n: i64) -> Result<Seconds, Self::Error> {
        let n = u64::try_from(n).ok().filter(|n| (1..=3600).contains(n));
        n.map(|n| Seconds(Duration::from_secs(n))).ok_or("expected 1 to 3600 seconds")
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

/// How closely a CCID follows the document that defines it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variant {
    /// With the improvements of this implementation.
    #[default]
    Tuned,
    /// Exactly as the document that defines the CCID says.
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
            Variant::Tuned => "with this implementation's improvements",
            Variant::Draft => "exactly as the draft specifies",
        }
    }
}

#[cfg(feature = "serde")]
by_name!(Variant);

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
        for (key, value) in [("scheduler", "rr"), ("reordering", "passive"), ("cc_variant", "draft")] {
            assert!(Settings::ALL.iter().any(|one| one.name == key && one.values.contains(value)));
            set(&mut s, key, value).unwrap();
            assert!(set(&mut s, key, "best").unwrap_err().contains(value), "{key}");
        }
        let i64 = |n: i64| -> serde::de::value::I64Deserializer<Error> { n.into_deserializer() };
        s.set("ccid", i64(2)).unwrap();
        s.set("ack_ratio", i64(4)).unwrap();
        assert!(s.set("ccid", i64(1)).unwrap_err().to_string().contains("2, "));
        assert!(s.set("ack_ratio", i64(0)).is_err());
        for (key, n, wrong) in [("keepalive", 20, 0), ("survive", 300, 3601), ("max_paths", 16, 65)] {
            s.set(key, i64(n)).unwrap();
            assert!(s.set(key, i64(wrong)).unwrap_err().to_string().contains("expected 1 to"), "{key}");
        }
        assert!(set(&mut s, "speed", "high").unwrap_err().contains("scheduler"));

        let cfg = s.session();
        assert_eq!((cfg.scheduler.name(), cfg.reorder), ("rr", ReorderConfig::passive()));
        assert_eq!((cfg.connection.tx_ccids, cfg.connection.ack_ratio), (alloc::vec![2], 4));
        assert_eq!((cfg.keepalive, cfg.survive), (Duration::from_secs(20), Duration::from_secs(300)));
        assert_eq!(cfg.max_paths, 16);
        assert!(cfg.connection.cc.draft);
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
        assert_eq!(cfg.max_paths, of_all.max_paths);
        assert_eq!((cfg.connection.tx_ccids, cfg.queue), (alloc::vec![5], QueueConfig::of_ip_packets()));
    }
}
