//! All integration tests of the crate, in one program.

mod classes;
mod common;
mod model;
mod repair;
mod sharing;
