//! Finds the positions of values in a scenario's text, for errors that are found after parsing.

use core::ops::Range;

use toml::de::{DeTable, DeValue};

pub(in crate::scenario) use linkem_net::keys::Problem;

/// The parsed text with the positions of its values.
#[derive(Debug)]
pub(super) struct Places<'a>(DeTable<'a>);

impl<'a> Places<'a> {
    /// Parses a text that has already been parsed without errors.
    pub(super) fn of(text: &'a str) -> Places<'a> {
        Places(DeTable::parse(text).map(toml::Spanned::into_inner).unwrap_or_default())
    }

    /// Returns the innermost table that contains, or is, the value at `place`.
    pub(super) fn table(&self, place: &Range<usize>) -> Option<&DeTable<'a>> {
        table_with(&self.0, place)
    }

    /// Returns table `index` of the array of tables `name`.
    pub(super) fn nth(&self, name: &str, index: usize) -> Option<&DeTable<'a>> {
        match self.0.get(name)?.get_ref() {
            DeValue::Array(items) => items.get(index)?.get_ref().as_table(),
            _ => None,
        }
    }
}

fn table_with<'t, 'a>(table: &'t DeTable<'a>, place: &Range<usize>) -> Option<&'t DeTable<'a>> {
    if table.values().any(|value| value.span() == *place) {
        return Some(table);
    }
    table.iter().find_map(|(key, value)| match value.get_ref() {
        DeValue::Table(inner) if key.span() == *place => Some(inner),
        DeValue::Table(inner) => table_with(inner, place),
        DeValue::Array(items) => {
            items.iter().filter_map(|i| i.get_ref().as_table()).find_map(|t| table_with(t, place))
        }
        _ => None,
    })
}

/// Returns the position of the value of `key` in a table.
pub(super) fn value(table: &DeTable<'_>, key: &str) -> Option<Range<usize>> {
    table.get(key).map(toml::Spanned::span)
}

/// Returns the position of a link key for one direction (0 forward, 1 reverse) in a path's, cell's or event's
/// table.
pub(super) fn of_link(table: &DeTable<'_>, way: usize, key: &str) -> Option<Range<usize>> {
    let name = ["forward", "reverse"][way];
    let single = table.get(name).and_then(|t| value(t.get_ref().as_table()?, key));
    single.or_else(|| value(table, key))
}

/// Returns whether a name can be a part of file names and of CSV files.
pub(super) fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}
