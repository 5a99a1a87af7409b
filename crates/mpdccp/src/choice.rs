//! Choices by name on the command line, from the tables that make them.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use mpdccp_proto::Named;

/// Reads one; `--help` lists all with what they are for.
pub(crate) fn choice<T: Named + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let all = T::all().map(|one| PossibleValue::new(one.name()).help(one.about()));
    PossibleValuesParser::new(all).try_map(|name| T::named(&name))
}
