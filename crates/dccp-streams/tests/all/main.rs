//! All tests of the crate from outside, in one program.

mod classes;
mod common;
mod model;
mod repair;
mod sharing;
