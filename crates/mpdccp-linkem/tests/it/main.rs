//! Links as a whole.

mod disciplines;
mod link;
mod models;
mod properties;
