//! Connects the tunnel to Linux: sockets, the TUN interface, routes, name lookups, files.

pub(crate) mod bypass;
pub(crate) mod confine;
pub(crate) mod default_route;
pub(crate) mod dns;
pub(crate) mod guard;
pub(crate) mod helper;
pub(crate) mod helper_process;
pub(crate) mod hooks;
pub(crate) mod keys;
pub(crate) mod marking_adapter;
pub(crate) mod privileges;
pub(crate) mod resolver;
pub(crate) mod routes;
pub(crate) mod service;
pub(crate) mod sockets;
pub(crate) mod state_files;
pub(crate) mod tun;
