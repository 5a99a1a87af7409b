use super::Reorderer;
use super::active_fixed::ActiveFixed;
use super::adaptive::Adaptive;
use super::equalised::Equalised;
use super::give_up::Active;
use super::passive::Passive;
use crate::names::Named;
#[cfg(feature = "serde")]
use crate::names::by_name;
use alloc::boxed::Box;
use mpdccp_units::Duration;

/// One reorderer.
#[derive(Debug)]
struct Entry {
    name: &'static str,
    about: &'static str,
    /// Configuration key for the reorderer's longest wait, and its default in milliseconds.
    wait: Option<(&'static str, u64)>,
    new: fn(&ReorderConfig) -> Box<dyn Reorderer>,
}

/// All reorderers. The first is the default. File parsing, `--help` texts and error messages use this table.
static REORDERERS: &[Entry] = &[
    Entry {
        name: "adaptive",
        about: "hold packets behind a hole until the missing packets are proven lost, or for the difference between the paths' delays",
        // The default is enough for a satellite link next to DSL, and for a deep queue.
        wait: Some(("max_ms", 250)),
        new: |cfg| Box::new(Active::new(Adaptive { max: cfg.wait })),
    },
    Entry {
        name: "active-fixed",
        about: "hold packets behind a hole for a fixed time",
        wait: Some(("timeout_ms", 100)),
        new: |cfg| Box::new(Active::new(ActiveFixed { timeout: cfg.wait, proven: cfg.proven })),
    },
    Entry {
        name: "equalised",
        about: "delay packets of faster paths to the delay of the slowest path",
        wait: Some(("max_ms", 250)),
        new: |cfg| Box::new(Equalised::new(cfg.wait)),
    },
    Entry {
        name: "passive",
        about: "deliver packets in the order of arrival",
        wait: None,
        new: |_| Box::new(Passive::new()),
    },
];

/// A reorderer by name.
#[derive(Clone, Copy, Debug)]
pub struct ReorderKind(&'static Entry);

impl PartialEq for ReorderKind {
    fn eq(&self, other: &ReorderKind) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for ReorderKind {}

impl Named for ReorderKind {
    const WHAT: &'static str = "reordering";
    fn all() -> impl Iterator<Item = ReorderKind> {
        REORDERERS.iter().map(ReorderKind)
    }
    fn name(self) -> &'static str {
        self.0.name
    }
    fn about(self) -> &'static str {
        self.0.about
    }
}

impl ReorderKind {
    /// Returns the configuration key for the reorderer's longest wait, if it has one.
    pub fn wait_key(self) -> Option<&'static str> {
        self.0.wait.map(|(key, _)| key)
    }
}

#[cfg(feature = "serde")]
by_name!(ReorderKind);

/// Settings of a reorderer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReorderConfig {
    /// The reorderer.
    pub kind: ReorderKind,
    /// Longest time that a hole may last after it is detected.
    pub wait: Duration,
    /// `active-fixed` only: give up holes early once they are proven lost, unlike the published Active-Fixed.
    pub proven: bool,
}

impl ReorderConfig {
    /// Returns settings that deliver packets in order of arrival.
    pub fn passive() -> ReorderConfig {
        ReorderConfig::of("passive")
    }

    /// Returns settings that hold packets behind a hole, for at most `wait` per hole.
    pub fn active_fixed(wait: Duration) -> ReorderConfig {
        ReorderConfig { wait, ..ReorderConfig::of("active-fixed") }
    }

    /// Returns settings that hold packets behind a hole until the hole is proven lost or has outlasted the
    /// measured lag between the paths, but for at most `wait`.
    pub fn adaptive(wait: Duration) -> ReorderConfig {
        ReorderConfig { wait, ..ReorderConfig::of("adaptive") }
    }

    /// Returns the settings of the reorderer with this name.
    fn of(name: &str) -> ReorderConfig {
        REORDERERS.iter().find(|e| e.name == name).map(|e| ReorderKind(e).into()).unwrap_or_default()
    }

    /// Creates the reorderer.
    pub fn reorderer(&self) -> Box<dyn Reorderer> {
        (self.kind.0.new)(self)
    }
}

impl From<ReorderKind> for ReorderConfig {
    /// Returns the default settings of this kind.
    fn from(kind: ReorderKind) -> ReorderConfig {
        let wait = Duration::from_millis(kind.0.wait.map_or(0, |(_, ms)| ms));
        ReorderConfig { kind, wait, proven: false }
    }
}

impl Default for ReorderConfig {
    fn default() -> ReorderConfig {
        ReorderKind(&REORDERERS[0]).into()
    }
}

/// Parses a name, or a table with a name and parameters.
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for ReorderConfig {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<ReorderConfig, D::Error> {
        use alloc::string::String;
        use serde::de::Error;

        #[derive(serde::Deserialize)]
        #[serde(
            untagged,
            expecting = "expected a name such as \"adaptive\", or a table such as { kind = \"adaptive\", max_ms = 250 }"
        )]
        enum Text {
            Word(String),
            Table(Table),
        }
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            kind: String,
            timeout_ms: Option<u64>,
            proven: Option<bool>,
            max_ms: Option<u64>,
        }
        let table = match Text::deserialize(d)? {
            Text::Word(kind) => Table { kind, timeout_ms: None, proven: None, max_ms: None },
            Text::Table(table) => table,
        };
        let kind = ReorderKind::named(&table.kind).map_err(Error::custom)?;
        let mut cfg = ReorderConfig::from(kind);
        for (key, given) in [("timeout_ms", table.timeout_ms), ("max_ms", table.max_ms)] {
            let Some(ms) = given else { continue };
            if kind.wait_key() != Some(key) {
                return Err(Error::custom(alloc::format!(
                    "{key} cannot be used with kind = \"{}\"",
                    kind.name()
                )));
            }
            if ms > MAX_WAIT_MS {
                return Err(Error::custom(alloc::format!("{key} = {ms}, expected 0 to {MAX_WAIT_MS}")));
            }
            cfg.wait = Duration::from_millis(ms);
        }
        if table.proven.is_some() && cfg.kind != ReorderConfig::of("active-fixed").kind {
            return Err(Error::custom("proven needs kind = \"active-fixed\""));
        }
        cfg.proven = table.proven.unwrap_or(false);
        Ok(cfg)
    }
}

/// Longest wait allowed in files.
#[cfg(feature = "serde")]
const MAX_WAIT_MS: u64 = 60_000;
