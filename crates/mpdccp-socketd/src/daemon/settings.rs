use std::path::PathBuf;

/// Settings of the daemon.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Path of the Unix socket on which the daemon listens for programs.
    pub control: PathBuf,
    /// UDP port of this daemon and of its peers (RFC 6773). `None` selects native DCCP, IP protocol 33.
    pub udp_port: Option<u16>,
    /// Congestion control of sockets that do not choose one.
    pub ccid: u8,
}
