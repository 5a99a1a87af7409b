//! Controllers in a small network in virtual time. `cargo test -p dccp-cc --test it MODULE -- --nocapture`
//! prints the tables of a module.

mod access_links;
mod bbr3;
mod bulk;
mod bursts;
mod capacity_drop;
mod company;
mod coupling;
mod golden;
mod idle;
mod inherit;
mod loss_based;
mod loss_bounds;
mod model;
mod path_changes;
mod prague;
mod properties;
mod reno;
mod return_path;
mod switches;
mod walks;
