//! Parses command-line values that name an entry of a table, such as a scheduler. For tests, parses the flags
//! of one command.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use mpdccp_proto::Named;

/// Returns a parser for the name of a `T`, so that `--help` lists all names with their descriptions.
pub(crate) fn choice<T: Named + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let all = T::all().map(|one| PossibleValue::new(one.name()).help(one.about()));
    PossibleValuesParser::new(all).try_map(|name| T::named(&name))
}

/// Parses the flags of a command, without its name.
#[cfg(test)]
pub(crate) fn flags<'a, T: clap::Args>(words: impl IntoIterator<Item = &'a str>) -> Result<T, clap::Error> {
    let command = T::augment_args(clap::Command::new("test").no_binary_name(true));
    T::from_arg_matches(&command.try_get_matches_from(words)?)
}
