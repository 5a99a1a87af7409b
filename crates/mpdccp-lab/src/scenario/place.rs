//! Positions of values in a scenario's text, for errors found after parsing.

use core::ops::Range;

use toml::de::{DeTable, DeValue};

pub(in crate::scenario) use linkem_net::keys::Problem;

/// The parsed text, with positions.
#[derive(Debug)]
pub(super) struct Places<'a>(DeTable<'a>);

impl<'a> Places<'a> {
    /// Of a text that was parsed without errors.
    pub(super) fn of(text: &'a str) -> Places<'a> {
        Places(DeTable::parse(text).map(toml::Spanned::into_inner).unwrap_or_default())
    }

    /// The table that contains the value at `place`, or is itself that value.
    pub(super) fn table(&self, place: &Range<usize>) -> Option<&DeTable<'a>> {
        table_with(&self.0, place)
    }

    /// The table `index` in the array of tables `name`.
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

/// The place of `key` in a table.
pub(super) fn value(table: &DeTable<'_>, key: &str) -> Option<Range<usize>> {
    table.get(key).map(toml::Spanned::span)
}

/// The position of a link key for one direction (0 forward, 1 reverse) in a table of a path, a cell or an
/// event.
pub(super) fn of_link(table: &DeTable<'_>, way: usize, key: &str) -> Option<Range<usize>> {
    let name = ["forward", "reverse"][way];
    let single = table.get(name).and_then(|t| value(t.get_ref().as_table()?, key));
    single.or_else(|| value(table, key))
}
