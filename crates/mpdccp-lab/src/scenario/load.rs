use core::fmt;
use core::ops::Range;
use std::path::Path;

use toml::{Spanned, Table};

use super::place::Problem;
use super::{Cell, FlowSpec, LIBRARY, LinkKeys, PathSpec, Scenario, SourceSpec, keys, source, validate};
use crate::code;

/// Maximum number of flows in one `[[flow]]` entry.
const MAX_FLOWS: u32 = 100;

/// An error in a scenario, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file, or the name of a built-in scenario.
    pub file: String,
    /// Line number, counted from 1, if known.
    pub line: Option<usize>,
    /// The key on that line.
    pub key: Option<String>,
    /// The description of the error, and the allowed values.
    pub message: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ": {key}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ScenarioError {}

impl ScenarioError {
    fn at(file: &str, text: &str, span: Option<Range<usize>>, message: String) -> ScenarioError {
        let line = span.as_ref().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        ScenarioError {
            file: file.to_owned(),
            line,
            key: span.and_then(|span| key_before(text, span)),
            message,
        }
    }
}

/// Returns the key of the value at `span`. The text has the form `k = value` or `{ .., k = value`, or the
/// span is the key itself.
fn key_before(text: &str, span: Range<usize>) -> Option<String> {
    let start = text[..span.start.min(text.len())].rfind('\n').map_or(0, |i| i + 1);
    let before = text.get(start..span.start)?.trim_end();
    // For a value in a list, the key is before the list's bracket.
    let list = before.rsplit_once('[').filter(|(head, items)| {
        head.trim_end().ends_with('=') && !items.contains(']') && !items.ends_with('=')
    });
    let before = list.map_or(before, |(head, _)| head.trim_end());
    let key = match before.strip_suffix('=') {
        Some(key) => key.trim_end().rsplit([' ', ',', '{']).next().unwrap_or(key),
        None => text.get(span)?,
    };
    let plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    plain.then(|| key.to_owned())
}

impl Scenario {
    /// Parses a scenario. `file` is the scenario's name in errors.
    ///
    /// # Errors
    /// Fails if the scenario is invalid, with the first error found.
    pub fn parse(file: &str, text: &str) -> Result<Scenario, ScenarioError> {
        let document: Table = text
            .parse()
            .map_err(|e: toml::de::Error| ScenarioError::at(file, text, e.span(), e.to_string()))?;
        let located = |span, message| ScenarioError::at(file, text, span, message);
        let mut scenario: Scenario =
            toml::from_str(text).map_err(|e| located(e.span(), e.message().to_owned()))?;
        if scenario.cells.is_empty() {
            scenario.cells.push(Cell { name: "base".to_owned(), ..Cell::default() });
        }
        scenario.file = file.to_owned();
        scenario.document = document;
        scenario.resolve(file).map_err(|(span, message)| located(span, message))?;
        validate::validate(&scenario, text).map_err(|(span, message)| located(span, message))?;
        Ok(scenario)
    }

    /// Returns the scenario with this name from [`LIBRARY`], or reads the file of that name if there is none.
    ///
    /// # Errors
    /// Fails if neither exists, or if the scenario is invalid.
    pub fn find(name_or_file: &str) -> Result<Scenario, ScenarioError> {
        let (file, text) = Scenario::text(name_or_file)?;
        Scenario::parse(&file, &text)
    }

    /// Finds a scenario in the same way as [`find`](Self::find), but does not parse it. Returns the
    /// scenario's name for use in errors, and its text.
    ///
    /// # Errors
    /// Fails if there is neither a built-in scenario nor a file of that name.
    pub fn text(name_or_file: &str) -> Result<(String, String), ScenarioError> {
        if let Some(named) = LIBRARY.iter().find(|named| named.name == name_or_file) {
            return Ok((format!("scenarios/{}.toml", named.name), named.text.to_owned()));
        }
        let problem =
            |message| ScenarioError { file: name_or_file.to_owned(), line: None, key: None, message };
        let names: Vec<&str> = LIBRARY.iter().map(|named| named.name).collect();
        if !Path::new(name_or_file).is_file() {
            return Err(problem(format!(
                "unknown scenario or file; expected a file or one of: {}",
                names.join(", ")
            )));
        }
        let text = std::fs::read_to_string(name_or_file).map_err(|e| problem(e.to_string()))?;
        Ok((name_or_file.to_owned(), text))
    }

    /// Reads the files named by the scenario `file`, and copies link keys to the paths that share a link.
    fn resolve(&mut self, file: &str) -> Result<(), Problem> {
        let files = &mut self.files;
        let mut read = |name: &str| {
            let beside = Path::new(file).parent().unwrap_or(Path::new("")).join(name);
            let text = std::fs::read_to_string(&beside).map_err(|e| format!("{}: {e}", beside.display()))?;
            files.insert(name.to_owned(), code::hash(&text));
            Ok::<_, String>(text)
        };
        for path in &mut self.paths {
            path.load(false, &mut read)?;
            load_ways([&mut path.forward, &mut path.reverse], &mut read)?;
            for event in &mut path.events {
                event.load(false, &mut read)?;
                load_ways([&mut event.forward, &mut event.reverse], &mut read)?;
            }
            path.resolve();
        }
        for cell in &mut self.cells {
            cell.load(false, &mut read)?;
            for own in cell.path.values_mut() {
                own.load(false, &mut read)?;
                load_ways([&mut own.forward, &mut own.reverse], &mut read)?;
            }
        }
        for flow in &mut self.flows {
            let at = flow.source.as_ref().map(Spanned::span);
            if let Some(SourceSpec::Trace { file, packets }) = flow.source.as_mut().map(Spanned::as_mut) {
                *packets = read(file)
                    .and_then(|t| source::parse_trace(&t))
                    .map_err(|e| (at, format!("trace `{file}`: {e}")))?;
            }
        }
        let mut flows = Vec::new();
        for flow in self.flows.drain(..) {
            let Some(count) = flow.count.clone() else {
                flows.push(flow);
                continue;
            };
            if !(1..=MAX_FLOWS).contains(count.as_ref()) {
                return Err((Some(count.span()), format!("must be from 1 to {MAX_FLOWS}")));
            }
            for i in 1..=*count.as_ref() {
                let name = format!("{}-{i}", flow.name.as_ref());
                flows.push(FlowSpec { name: Spanned::new(flow.name.span(), name), ..flow.clone() });
            }
        }
        self.flows = flows;
        for i in 0..self.paths.len() {
            let (before, rest) = self.paths.split_at_mut(i);
            let path = &mut rest[0];
            let Some(name) = path.shares.clone() else { continue };
            let owner = before.iter().find(|p| p.name.as_ref() == name.as_ref() && p.shares.is_none());
            let Some(owner) = owner else {
                let message = "expected the name of an earlier path with its own link";
                return Err((Some(name.span()), message.to_owned()));
            };
            let own = path.link_keys();
            let ways = [&path.forward, &path.reverse].into_iter().any(Option::is_some);
            if own.over(&owner.link_keys()) != owner.link_keys() || ways || !path.events.is_empty() {
                let message = "a path with `shares` has the link of the other path; its only other keys are `name` and `priority`";
                return Err((Some(name.span()), message.to_owned()));
            }
            *path = PathSpec {
                name: path.name.clone(),
                priority: path.priority,
                shares: path.shares.clone(),
                events: Vec::new(),
                ..owner.clone()
            };
        }
        Ok(())
    }
}

fn load_ways(
    ways: [&mut Option<LinkKeys>; 2],
    read: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Result<(), Problem> {
    let [forward, reverse] = ways;
    forward.as_mut().map_or(Ok(()), |keys| keys.load(false, read))?;
    reverse.as_mut().map_or(Ok(()), |keys| keys.load(true, read))
}

impl PathSpec {
    /// Combines a path's keys into separate keys for each direction.
    fn resolve(&mut self) {
        let none = [LinkKeys::default(), LinkKeys::default()];
        self.ways = keys::ways(&none, &self.link_keys(), self.forward.as_ref(), self.reverse.as_ref());
    }
}
