//! Parses a configuration file. Reports all errors in the file, not just the first, as well as suspicious
//! values.

use super::file::{REMOVED, RENAMED};
use super::suggestions::{self, Section, TOP};
use super::{Config, ConfigError, ShardCount};
use mpdccp_proto::Settings;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Value};

/// Maximum number of errors reported for a file.
const MOST: usize = 100;

/// An error or warning about a key in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Line number of the key, counted from 1, or that of its section if the key is missing.
    pub line: usize,
    /// The key including its sections, such as `peer.path.remote`.
    pub key: String,
    /// The error or warning, and how to fix it.
    pub message: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match self.key.rsplit('.').next() {
            Some(key) if !self.message.contains(key) => write!(f, "{key}: {}", self.message),
            _ => f.write_str(&self.message),
        }
    }
}

/// Result of parsing a file.
#[derive(Debug)]
pub struct Review {
    /// The configuration without the invalid values; `None` if it could not be parsed.
    pub draft: Option<Config>,
    /// All errors, in the order of the lines.
    pub errors: Vec<Remark>,
    /// Values that are allowed but most likely not intended.
    pub warnings: Vec<Remark>,
    /// The error that was found first. Later errors may be consequences of this one.
    first: Option<Remark>,
    places: Places,
    /// Keys for which an error has already been reported.
    known: BTreeSet<String>,
}

impl Review {
    /// Adds an error about the key at the path `at`, such as `peer.0.public_key`, unless an error about this
    /// key has already been reported.
    pub fn add(&mut self, at: &str, message: String) {
        if !is_known(&self.known, at) {
            let error = self.places.remark(at, message);
            self.first.get_or_insert_with(|| error.clone());
            self.errors.push(error);
            self.errors.sort_by_key(|remark| remark.line);
        }
    }

    /// Adds a warning.
    pub fn warn(&mut self, at: &str, message: String) {
        self.warnings.push(self.places.remark(at, message));
        self.warnings.sort_by_key(|remark| remark.line);
    }
}

/// An error or a warning about the key at a path such as `peer.0.path.1.remote`.
pub(super) struct Found {
    pub(super) at: String,
    pub(super) message: String,
}

/// A value of the file.
#[derive(Debug)]
struct Entry {
    at: String,
    key: Range<usize>,
    value: Range<usize>,
    table: bool,
}

/// Positions of all values in the file.
#[derive(Debug, Default)]
struct Places {
    entries: Vec<Entry>,
    /// Offset of each line in the text.
    lines: Vec<usize>,
}

fn under(at: &str, key: impl fmt::Display) -> String {
    if at.is_empty() { key.to_string() } else { format!("{at}.{key}") }
}

impl Places {
    fn new(text: &str, document: &DeTable<'_>) -> Places {
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        let mut places = Places { entries: Vec::new(), lines: std::iter::once(0).chain(breaks).collect() };
        places.add_table("", document);
        places
    }

    fn add_table(&mut self, at: &str, table: &DeTable<'_>) {
        for (key, value) in table.iter() {
            self.add(under(at, key.get_ref()), key.span(), value);
        }
    }

    fn add(&mut self, at: String, key: Range<usize>, value: &Spanned<DeValue<'_>>) {
        let table = value.get_ref().as_table();
        self.entries.push(Entry { at: at.clone(), key, value: value.span(), table: table.is_some() });
        if let Some(table) = table {
            self.add_table(&at, table);
        }
        for (i, value) in value.get_ref().as_array().into_iter().flatten().enumerate() {
            self.add(under(&at, i), value.span(), value);
        }
    }

    fn line(&self, offset: usize) -> usize {
        self.lines.partition_point(|line| *line <= offset).max(1)
    }

    /// Returns the path of the innermost value (or, if `tables` is set, of the innermost table) at a position
    /// in the text. The path is empty for the document as a whole.
    fn innermost(&self, span: &Range<usize>, tables: bool) -> &str {
        let holds = |range: &Range<usize>| range.start <= span.start && span.end <= range.end;
        let at = |entry: &&Entry| (entry.table || !tables) && (holds(&entry.key) || holds(&entry.value));
        let found = self.entries.iter().filter(at).max_by_key(|entry| entry.at.split('.').count());
        found.map_or("", |entry| &entry.at)
    }

    /// Returns the line of a key or, if the key is missing, of its section.
    fn line_of(&self, at: &str) -> usize {
        let mut at = at;
        loop {
            if let Some(entry) = self.entries.iter().find(|entry| entry.at == at) {
                return self.line(entry.key.start);
            }
            match at.rsplit_once('.') {
                Some((outer, _)) => at = outer,
                None => return 1,
            }
        }
    }

    fn remark(&self, at: &str, message: String) -> Remark {
        Remark { line: self.line_of(at), key: general(at), message }
    }
}

/// Returns a path without list indices: `peer.path.remote` for `peer.0.path.1.remote`.
fn general(at: &str) -> String {
    let parts: Vec<&str> = at.split('.').filter(|part| part.parse::<usize>().is_err()).collect();
    parts.join(".")
}

/// Returns the header of the section to which a table belongs.
fn section(at: &str) -> &'static str {
    match &*general(at) {
        "peer" => "[[peer]]",
        "peer.path" => "[[peer.path]]",
        "assign" => "[assign]",
        "bypass" => "[bypass]",
        "policy_rule" => "[[policy_rule]]",
        _ => TOP,
    }
}

/// Removes a value from a document, and returns whether the document contained it.
fn remove(document: &mut DeTable<'_>, at: &str) -> bool {
    let (table, key) = at.rsplit_once('.').unwrap_or(("", at));
    let Some(table) = table_at(document, table) else { return false };
    let before = table.len();
    keep(table, |name, _| name != key);
    table.len() < before
}

/// State of the parser while it reads a file.
struct Reading {
    places: Places,
    sections: Vec<Section>,
    errors: Vec<Remark>,
    /// Keys that were invalid or replaced. Further errors about them are not reported.
    known: BTreeSet<String>,
}

impl Reading {
    fn error(&mut self, at: &str, message: impl Into<String>) {
        if !is_known(&self.known, at) {
            self.errors.push(self.places.remark(at, message.into()));
        }
        self.known.insert(at.to_owned());
    }

    /// Reports an unknown key in the table `at`.
    fn unknown(&mut self, at: &str, name: &str, before: &str, expected: &[String]) {
        let here = section(at);
        let (instead, meant) = match suggestions::near(name, expected) {
            _ if here != TOP || at.is_empty() => suggestions::instead(name, here, &self.sections),
            Some(key) => (format!("did you mean `{key}`?"), Some(key.to_owned())),
            None => (format!("expected one of: {}", expected.join(", ")), None),
        };
        self.known.extend(meant.map(|meant| under(at, meant)));
        self.error(&under(at, name), format!("{before}unknown key `{name}`; {instead}"));
    }

    /// Reports an error of the TOML parser in clearer words.
    fn complain(&mut self, at: &str, message: &str) {
        if let Some((before, rest)) = message.split_once("unknown field `") {
            let name = rest.split('`').next().unwrap_or_default().to_owned();
            let table = at.strip_suffix(&format!(".{name}")).unwrap_or(at).to_owned();
            return self.unknown(&table, &name, before, &suggestions::words(message));
        }
        if let Some(rest) = message.strip_prefix("unknown variant `") {
            let name = rest.split('`').next().unwrap_or_default();
            let words = suggestions::words(message);
            let meant = suggestions::near(name, &words)
                .map_or(String::new(), |meant| format!("; did you mean `{meant}`?"));
            return self.error(at, format!("{}{meant}", message.replace("unknown variant", "unknown value")));
        }
        let message = match message.rsplit_once("expected ") {
            Some((before, "a boolean")) => format!("{before}expected true or false"),
            Some((before, "u16")) => format!("{before}expected a number from 0 to 65535"),
            Some((_, "a sequence")) if at == "peer" || at.ends_with(".path") => {
                let header = section(at);
                format!("expected a list of tables with double brackets: {header}")
            }
            Some((before, "a sequence")) => format!("{before}expected a list in brackets"),
            _ => message.to_owned(),
        };
        self.error(at, message);
    }

    /// Moves the session settings and the unknown keys out of the document.
    fn settings(&mut self, document: &mut DeTable<'_>) -> Settings {
        let mut settings = Settings::default();
        let mut others = Vec::new();
        let keys = suggestions::keys_of::<Config>();
        keep(document, |key, value| {
            let own = keys.iter().any(|known| known == key);
            if !own {
                others.push((key.to_owned(), value.clone()));
            }
            own
        });
        for (key, value) in others {
            let name = RENAMED.iter().find(|(old, _)| key == *old).map_or(key.as_str(), |(_, new)| new);
            if !Settings::KEYS.contains(&name) {
                self.unknown("", &key, "", &[]);
            } else if let Ok(value) = Value::deserialize(toml::de::ValueDeserializer::from(value))
                && let Err(e) = settings.set(name, value)
            {
                self.complain(&key, &format!("{name}: {}", e.message()));
            }
        }
        settings
    }

    /// Parses all other values. If a value is invalid, removes or replaces it and parses the document again.
    fn values(&mut self, mut document: Spanned<DeTable<'_>>) -> Option<Config> {
        let whole = document.span();
        for _ in 0..MOST {
            let e = match Config::deserialize(toml::de::Deserializer::from(document.clone())) {
                Ok(cfg) => return Some(cfg),
                Err(e) => e,
            };
            let span = e.span().unwrap_or(whole.clone());
            if let Some(key) = e.message().strip_prefix("missing field `").and_then(|s| s.strip_suffix('`')) {
                let table = if span == whole { "" } else { self.places.innermost(&span, true) }.to_owned();
                let at = under(&table, key);
                self.error(&at, format!("`{key}` is missing: {}", missing(key)));
                let listens = document.get_ref().iter().any(|(key, _)| key.get_ref() == "listen");
                let value = match key {
                    "name" => "?",
                    "role" if listens => "server",
                    "role" => "client",
                    "addresses" => "auto",
                    "remote" => "192.0.2.1",
                    _ => return None,
                };
                let value = DeValue::String(Cow::Owned(value.to_owned()));
                let inserted = table_at(document.get_mut(), &table).map(|table| {
                    table.insert(Spanned::new(0..0, Cow::Owned(key.to_owned())), Spanned::new(0..0, value))
                });
                inserted?;
                continue;
            }
            // If an element of a list is invalid, remove the whole list.
            let mut at = self.places.innermost(&span, false);
            while let Some((outer, _)) = at.rsplit_once('.').filter(|(_, last)| last.parse::<usize>().is_ok())
            {
                at = outer;
            }
            let at = at.to_owned();
            self.complain(&at, e.message());
            if !remove(document.get_mut(), &at) {
                return None;
            }
        }
        None
    }
}

/// Returns whether an error was already reported for a key, for its section, or for the key with the suffix
/// `_file`.
fn is_known(known: &BTreeSet<String>, at: &str) -> bool {
    let outer = at.match_indices('.').map(|(end, _)| &at[..end]);
    outer.chain([at]).any(|at| known.contains(at)) || known.contains(&format!("{at}_file"))
}

fn keep<'i>(table: &mut DeTable<'i>, mut which: impl FnMut(&str, &Spanned<DeValue<'i>>) -> bool) {
    let all = std::mem::take(table);
    *table = all.into_iter().filter(|(key, value)| which(key.get_ref(), value)).collect();
}

/// Returns what a missing key is for, to complete the error message.
fn missing(key: &str) -> &'static str {
    match key {
        "role" => "\"client\" or \"server\"",
        "addresses" => {
            "the inner addresses of this end, such as [\"10.0.0.1/24\"], or \"auto\" for addresses from the server"
        }
        "name" => "a name for logs and status, such as \"home\"",
        "remote" => "the other end, such as \"192.0.2.1:6511\"",
        "pool" => "the networks for assigned addresses, such as [\"10.0.0.0/24\"]",
        _ => "docs/tunnel.md describes it",
    }
}

/// Returns the table at a path.
fn table_at<'a, 'i>(mut table: &'a mut DeTable<'i>, at: &str) -> Option<&'a mut DeTable<'i>> {
    let mut parts = at.split('.').filter(|part| !part.is_empty()).peekable();
    while let Some(part) = parts.next() {
        let mut value = table.iter_mut().find(|(key, _)| key.get_ref() == part)?.1.get_mut();
        while let Some(i) = parts.peek().and_then(|part| part.parse::<usize>().ok()) {
            let DeValue::Array(array) = value else { return None };
            value = array.get_mut(i)?.get_mut();
            parts.next();
        }
        let DeValue::Table(inner) = value else { return None };
        table = inner;
    }
    Some(table)
}

impl Config {
    /// Parses and checks the text of a configuration file. `shards = "auto"` sets the number of shards to
    /// `cores`.
    pub fn review(text: &str, cores: usize) -> Review {
        let (mut document, wrong) = DeTable::parse_recoverable(text);
        let places = Places::new(text, document.get_ref());
        let mut reading =
            Reading { places, sections: suggestions::sections(), errors: Vec::new(), known: BTreeSet::new() };
        for e in &wrong {
            let line = reading.places.line(e.span().map_or(0, |span| span.start));
            let said = |remark: &Remark| remark.line == line;
            if !reading.errors.iter().any(said) {
                let word = e.span().and_then(|span| text.get(span)).unwrap_or_default().trim();
                let word = if word.is_empty() { String::new() } else { format!(": `{word}`") };
                let message = format!("{}{word}", e.message());
                reading.errors.push(Remark { line, key: String::new(), message });
            }
        }
        let mut warnings = Vec::new();
        let mut config = None;
        if wrong.is_empty() {
            let has = |name: &str| document.get_ref().iter().any(|(key, _)| key.get_ref() == name);
            for (old, new) in RENAMED.iter().filter(|(old, _)| has(old)) {
                match has(new) {
                    true => {
                        reading.error(old, format!("`{old}` is the old name of `{new}`; keep only `{new}`"))
                    }
                    false => warnings.push(Found {
                        at: (*old).into(),
                        message: format!("key `{old}` is deprecated; rename it to `{new}`"),
                    }),
                }
            }
            let both = |old: &str| reading.known.contains(old);
            let drop: Vec<&str> = RENAMED.iter().map(|(old, _)| *old).filter(|old| both(old)).collect();
            keep(document.get_mut(), |key, _| !drop.contains(&key));
            for Entry { at, .. } in &reading.places.entries {
                if REMOVED.contains(&&*general(at)) && remove(document.get_mut(), at) {
                    let key = at.rsplit('.').next().unwrap_or(at);
                    let message = format!("key `{key}` no longer has an effect; remove it");
                    warnings.push(Found { at: at.clone(), message });
                }
            }
            let settings = reading.settings(document.get_mut());
            config = reading.values(document);
            if let Some(cfg) = config.as_mut() {
                cfg.settings = settings;
                if cfg.shards == ShardCount::AUTO {
                    let cores = u8::try_from(cores).unwrap_or(ShardCount::MOST);
                    cfg.shards = ShardCount(cores.clamp(1, ShardCount::MOST));
                }
                // If any of these keys is invalid, skip the checks, because these keys decide which checks
                // apply.
                let mut decisive = ["role", "security", "encapsulation"].into_iter();
                let known = decisive.any(|key| reading.known.contains(key));
                let found = if known { Vec::new() } else { cfg.check() };
                let new = |found: &Found| !is_known(&reading.known, &found.at);
                let new: Vec<Found> = found.into_iter().filter(new).collect();
                let remarks =
                    new.iter().map(|Found { at, message }| reading.places.remark(at, message.clone()));
                reading.errors.extend(remarks);
                reading.known.extend(new.into_iter().map(|found| found.at));
                cfg.settle_encapsulations();
                warnings.extend(cfg.suspicious());
                cfg.peers.iter_mut().for_each(|peer| peer.as_mut().rank_by_cost());
            }
        }
        let Reading { places, mut errors, known, .. } = reading;
        let first = errors.first().cloned();
        errors.sort_by_key(|remark| remark.line);
        let mut warnings: Vec<Remark> =
            warnings.into_iter().map(|Found { at, message }| places.remark(&at, message)).collect();
        warnings.sort_by_key(|remark| remark.line);
        Review { draft: config, errors, warnings, first, places, known }
    }

    /// Parses and checks the text of a file, like [`review`](Self::review).
    ///
    /// # Errors
    /// Returns the first error, with file, line, key and allowed values, and the number of further errors.
    pub fn parse(file: &Path, text: &str, cores: usize) -> Result<Config, ConfigError> {
        Config::review(text, cores).result(file)
    }
}

impl Review {
    /// Returns the configuration.
    ///
    /// # Errors
    /// Returns the first error, with the file name and the number of further errors.
    pub fn result(self, file: &Path) -> Result<Config, ConfigError> {
        let file = file.display();
        let more = match self.errors.len() {
            0 | 1 => String::new(),
            n => format!(" (and {} more: `mpdccp tunnel check {file}`)", n - 1),
        };
        match (self.draft, self.first) {
            (Some(config), None) => Ok(config),
            (_, Some(first)) => Err(ConfigError(format!("{file}: {first}{more}"))),
            (None, None) => Err(ConfigError(format!("{file}: cannot read the file"))),
        }
    }
}
