//! The figures, drawn from records alone.

pub(crate) mod dcp;
mod draw;
mod paper;

pub use draw::{Figure, Panel, Series, Shape};
pub use paper::{Column, delivery, inner_workings};
