//! The figures, drawn from records alone.
//!
//! A [`Figure`] is data: panels, series, ranges. `draw` makes SVG and PNG of it, `interactive` what a browser zooms into.

pub(crate) mod dcp;
mod distribution;
mod draw;
mod events;
mod figure;
mod interactive;
mod paper;
mod range;
mod swept;
mod thin;

pub use distribution::distribution;
pub use figure::{Figure, Mark, Panel, Series, Shape};
pub(crate) use interactive::{SCRIPT, STYLE};
pub use paper::{Column, delivery, inner_workings};
pub use swept::over_parameter;
