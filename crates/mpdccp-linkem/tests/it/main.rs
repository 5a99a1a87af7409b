//! Tests of whole links.

mod disciplines;
mod link;
mod models;
mod properties;
