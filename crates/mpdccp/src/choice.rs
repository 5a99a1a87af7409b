//! Choices by name on the command line, from the tables of all choices.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use mpdccp_proto::Named;

/// Parser for a choice; `--help` lists all choices with their descriptions.
pub(crate) fn choice<T: Named + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let all = T::all().map(|one| PossibleValue::new(one.name()).help(one.about()));
    PossibleValuesParser::new(all).try_map(|name| T::named(&name))
}
