use std::path::PathBuf;

/// Settings of the daemon.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Unix socket to listen on for programs.
    pub control: PathBuf,
    /// UDP port of this daemon and of its peers (RFC 6773); `None` for native DCCP, IP protocol 33.
    pub udp_port: Option<u16>,
    /// CCID of sockets that do not choose one.
    pub ccid: u8,
    /// Largest IP packet, bytes.
    pub mtu: u16,
}
