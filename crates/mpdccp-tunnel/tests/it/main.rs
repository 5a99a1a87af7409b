//! Tests of tunnels on simulated hosts in virtual time.

mod capacities;
mod config;
mod features;
mod hooks;
mod host;
mod leases;
mod outages;
mod reload;
mod routes;
mod servers;
mod sizes;
mod tcp;
mod tcp_deaths;
mod tcp_resets;
mod tcp_rules;
mod tls;
mod world;
mod worlds;
