//! Tests the program from outside: its output, and what it does in network namespaces.

mod common;
mod conform;
mod fleet;
mod keys_page;
#[cfg(feature = "lab")]
mod lab_errors;
#[cfg(feature = "lab")]
mod lab_kill;
#[cfg(feature = "lab")]
mod lab_uml;
mod link;
mod perf;
mod perf_capture;
mod perf_ends;
mod perf_flags;
mod perf_iperf3;
mod perf_keys;
mod perf_mtu;
mod perf_nat;
mod report_browser;
mod socketd;
mod tunnel_assign;
mod tunnel_daemon;
mod tunnel_doctor;
mod tunnel_errors;
mod tunnel_init;
mod tunnel_marking;
mod tunnel_nat;
mod tunnel_netns;
mod tunnel_offload;
mod tunnel_on_host;
mod tunnel_page;
mod tunnel_policy;
mod tunnel_readme;
mod tunnel_recipe;
mod tunnel_service;
mod tunnel_shards;
mod tunnel_story;
mod tunnel_tcp;
mod tunnel_tls;
mod tunnel_trust;
