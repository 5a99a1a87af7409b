//! Sweeps. Each parameter is a place in the scenario's file, and each point assigns a value to every
//! parameter.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Table, Value};

use super::{Scenario, ScenarioError};

/// The `[sweep]` table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepSpec {
    /// Number of seeds for each point.
    #[serde(default = "one")]
    pub seeds: u32,
    /// The parameters (places such as `path.*.owd` or `path.path1.rate`), each with its values.
    pub parameters: BTreeMap<String, Vec<Value>>,
    /// Metrics shown after the sweep.
    #[serde(default = "usual")]
    pub show: Vec<String>,
}

fn one() -> u32 {
    1
}

fn usual() -> Vec<String> {
    ["rx_mbps", "app_p50_ms", "app_p95_ms"].map(str::to_owned).into()
}

/// A combination of values, and the scenario that has them.
#[derive(Clone, Debug)]
pub struct Point {
    /// Values in the order of the parameters' names.
    pub values: Vec<String>,
    /// Scenario with these values.
    pub scenario: Scenario,
}

impl Scenario {
    /// Returns all points of the scenario's sweep, to be run in `cells`. The last parameter changes fastest.
    ///
    /// # Errors
    /// Fails if the scenario has no sweep, or if a point is invalid.
    pub fn points(&self, cells: &[&str]) -> Result<Vec<Point>, ScenarioError> {
        let wrong = |message: String| self.wrong(message);
        let Some(sweep) = &self.sweep else {
            return Err(wrong("the scenario has no [sweep]".to_owned()));
        };
        let mut points = vec![(Vec::new(), self.document.clone())];
        for (name, values) in &sweep.parameters {
            if values.is_empty() {
                return Err(wrong(format!("sweep: `{name}` has no values")));
            }
            let repeated = |(i, value): &(usize, &Value)| values[..*i].contains(value);
            if let Some((_, twice)) = values.iter().enumerate().find(repeated) {
                return Err(wrong(format!("sweep: `{name}` has the value {twice} twice")));
            }
            let all = self.document.get("cell").and_then(Value::as_array).into_iter().flatten();
            let in_use =
                |cell: &&str| all.clone().find(|all| all.get("name").and_then(Value::as_str) == Some(*cell));
            if let Some(cell) = cells.iter().find(|cell| in_use(cell).is_some_and(|cell| sets(cell, name))) {
                return Err(wrong(format!(
                    "sweep: `{name}`: cell `{cell}` also sets this key, or one that replaces it; remove one of them"
                )));
            }
            let key = name.strip_prefix("tunnel.").and_then(|rest| rest.split('.').next());
            if key.is_some_and(|key| self.variants.iter().all(|variant| variant.sets(key))) {
                return Err(wrong(format!("sweep: `{name}`: all variants set this key; remove it there")));
            }
            let mut next = Vec::new();
            for (labels, table) in points {
                for value in values {
                    let mut varied = Value::Table(table.clone());
                    change(&mut varied, name, value).map_err(|e| wrong(format!("sweep: `{name}`: {e}")))?;
                    let Value::Table(varied) = varied else { continue };
                    next.push(([labels.clone(), vec![text_of(value)]].concat(), varied));
                }
            }
            points = next;
        }
        let names: Vec<&String> = sweep.parameters.keys().collect();
        let point = |(values, table): (Vec<String>, Table)| {
            let at: Vec<String> = names.iter().zip(&values).map(|(n, v)| format!("{n} = {v}")).collect();
            let scenario = Scenario::parse(&self.file, &table.to_string()).map_err(|e| {
                // Leave out the line number, which would refer to the modified text.
                wrong(format!("sweep: with {}: {}", at.join(", "), e.message))
            })?;
            Ok(Point { values, scenario })
        };
        points.into_iter().map(point).collect()
    }

    /// Returns the scenario with some values replaced. As in a sweep, the name of a value consists of the
    /// keys that lead to it, joined by dots.
    ///
    /// # Errors
    /// Fails if a name leads to no value, or if the scenario is invalid.
    pub fn with(&self, values: &[(&str, Value)]) -> Result<Scenario, ScenarioError> {
        let mut table = Value::Table(self.document.clone());
        for (name, value) in values {
            change(&mut table, name, value).map_err(|e| self.wrong(format!("`{name}`: {e}")))?;
        }
        // Write the table as a document; as a `Value`, it would be written as an inline table.
        let text = table.as_table().map(Table::to_string).unwrap_or_default();
        // Leave out the line number, which would refer to the modified text.
        Scenario::parse(&self.file, &text).map_err(|e| self.wrong(e.message))
    }

    fn wrong(&self, message: String) -> ScenarioError {
        ScenarioError { file: self.file.clone(), line: None, key: None, message }
    }
}

/// Link keys that replace each other.
const REPLACE: [[&str; 2]; 2] = [["rate", "rate_trace"], ["loss", "burst_loss"]];

/// Returns whether a cell sets the key of a path or flow at `place`, such as `path.*.owd`, or a key that
/// replaces it. In such a cell, a sweep over this key would have no effect.
fn sets(cell: &Value, place: &str) -> bool {
    let parts: Vec<&str> = place.split('.').collect();
    let [kind, of, keys @ ..] = &parts[..] else { return false };
    let any = *of == "*" || of.parse::<usize>().is_ok();
    let changes = cell.get(kind).and_then(Value::as_table);
    let own = |(name, table): (&String, &Value)| (any || name == of) && replaces(table, keys);
    changes.is_some_and(|all| all.iter().any(own)) || *kind == "path" && replaces(cell, keys)
}

/// Returns whether the keys of a cell, path or flow in `table` replace the value at `keys`, such as `owd` or
/// `forward.owd`, in each direction to which the value applies.
fn replaces(table: &Value, keys: &[&str]) -> bool {
    let has = |key: &str| table.get(key).is_some();
    let way = |way: &str, keys: &[&str]| table.get(way).is_some_and(|own| replaces(own, keys));
    match keys {
        [first @ ("forward" | "reverse"), rest @ ..] if !rest.is_empty() => {
            replaces(table, rest) || way(first, rest)
        }
        [key, ..] => {
            let other = REPLACE.iter().filter(|pair| pair.contains(key)).flatten().any(|key| has(key));
            has(key) || other || way("forward", keys) && way("reverse", keys)
        }
        [] => false,
    }
}

/// Returns whether `forward` and `reverse` of a path replace the value at `places`, such as `path.*.owd`. A
/// change of the value would have no effect.
fn is_replaced(document: &Value, places: &[&str]) -> bool {
    let ["path", of, keys @ ..] = places else { return false };
    let ways = ["forward", "reverse"];
    if keys.first().is_none_or(|key| ways.contains(key)) {
        return false;
    }
    let Some(paths) = document.get("path").and_then(Value::as_array) else { return false };
    let both = |path: &Value| ways.iter().all(|way| path.get(way).is_some_and(|own| replaces(own, keys)));
    chosen(paths, of).into_iter().any(|i| both(&paths[i]))
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Sets the value with this name, which consists of the keys that lead to it, joined by dots.
fn change(document: &mut Value, name: &str, value: &Value) -> Result<(), String> {
    let places: Vec<&str> = name.split('.').collect();
    set(document, &places, value)?;
    if is_replaced(document, &places) {
        let what = "`forward` and `reverse` of the path also set this key, or one that replaces it; change the value there";
        return Err(what.to_owned());
    }
    Ok(())
}

/// Returns the indices of the elements that a part of a place selects: `*` selects all, a name or label one.
/// An index selects an element only if no element has it as its name.
fn chosen(items: &[Value], part: &str) -> Vec<usize> {
    let called = |item: &Value| {
        ["name", "label"].iter().any(|key| item.get(key).and_then(Value::as_str) == Some(part))
    };
    let named = items.iter().any(called);
    let all = items.iter().enumerate();
    all.filter(|(i, item)| part == "*" || called(item) || !named && part == i.to_string())
        .map(|(i, _)| i)
        .collect()
}

/// Sets `value` at a place. The parts of a place are table keys. In an array of tables, a part is the `name`
/// or `label` of an element, its index, or `*` for all elements.
fn set(at: &mut Value, places: &[&str], value: &Value) -> Result<(), String> {
    let Some((first, rest)) = places.split_first() else {
        *at = value.clone();
        return Ok(());
    };
    match at {
        Value::Table(table) => {
            // Create a missing table or key; parsing checks later whether the key is known.
            let empty = if rest.is_empty() { value.clone() } else { Value::Table(Table::new()) };
            set(table.entry(*first).or_insert(empty), rest, value)
        }
        Value::Array(items) => {
            let chosen = chosen(items, first);
            if chosen.is_empty() {
                return Err(format!("`{first}` not found"));
            }
            chosen.into_iter().try_for_each(|i| set(&mut items[i], rest, value))
        }
        _ => Err(format!("`{first}` is not a table or a list")),
    }
}
