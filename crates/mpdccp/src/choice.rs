//! Parses command-line values that name an entry of a table, such as a scheduler.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use mpdccp_proto::Named;

/// Returns a parser for the name of a `T`, so that `--help` lists all names with their descriptions.
pub(crate) fn choice<T: Named + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let all = T::all().map(|one| PossibleValue::new(one.name()).help(one.about()));
    PossibleValuesParser::new(all).try_map(|name| T::named(&name))
}
