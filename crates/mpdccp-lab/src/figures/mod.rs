//! Figures, drawn from records alone.
//!
//! A [`Figure`] is plain data: panels, series and ranges. The `svg` module draws it, for a file or for a
//! report.

pub(crate) mod dcp;
mod distribution;
mod events;
mod figure;
mod paper;
mod range;
mod svg;
mod swept;
mod thin;

pub use distribution::distribution;
pub use figure::{Figure, Mark, Panel, Series, Shape};
pub use paper::{Column, delivery, inner_workings};
pub(crate) use svg::{SCRIPT, STYLE, escape};
pub use swept::over_parameter;
