//! Tunnels on simulated hosts in virtual time.

mod features;
mod host;
mod world;
mod worlds;
