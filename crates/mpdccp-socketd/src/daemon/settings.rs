use std::path::PathBuf;

/// Settings of the daemon.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Path of the Unix socket on which the daemon listens for programs.
    pub control: PathBuf,
    /// The UDP port of this daemon and of its peers (RFC 6773). `None` means native DCCP, IP protocol 33.
    pub udp_port: Option<u16>,
    /// The congestion control of sockets whose program does not select one.
    pub ccid: u8,
}
