//! Tests of tunnels on simulated hosts in virtual time.

mod config;
mod features;
mod hooks;
mod host;
mod outages;
mod reload;
mod servers;
mod sizes;
mod tcp;
mod tcp_resets;
mod tcp_rules;
mod tls;
mod world;
mod worlds;
