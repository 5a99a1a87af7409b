//! The interfaces that a running tunnel offers to people and programs.

pub(crate) mod check;
pub(crate) mod control;
pub(crate) mod events;
pub(crate) mod health;
pub(crate) mod http;
pub(crate) mod live;
pub(crate) mod prometheus;
pub(crate) mod table;
pub(crate) mod trace;
pub(crate) mod web;
