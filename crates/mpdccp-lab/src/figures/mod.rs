//! The figures, drawn from records alone.

pub(crate) mod dcp;
mod draw;
mod paper;
mod swept;

pub use draw::{Figure, Panel, Series, Shape};
pub use paper::{Column, delivery, inner_workings};
pub use swept::over_parameter;
