//! Numbers of the kernel's interface (linux/dccp.h, linux/socket.h).

/// Socket type of DCCP.
pub const SOCK_DCCP: i32 = 6;
/// Option level of sockets.
pub const SOL_SOCKET: i32 = 1;
/// Option level of DCCP.
pub const SOL_DCCP: i32 = 269;
/// Control message of a datagram's priority, a 32-bit number; level [`SOL_DCCP`].
pub const DCCP_SCM_PRIORITY: i32 = 1;
/// Options of this number and above are a CCID's own.
pub const CCID_LEVEL_OPTIONS: i32 = 128;

/// Options of level [`SOL_DCCP`].
pub mod option {
    /// Deprecated, without effect.
    pub const PACKET_SIZE: i32 = 1;
    /// Service Code in network byte order; of a listener, up to 32.
    pub const SERVICE: i32 = 2;
    /// Deprecated, without effect.
    pub const CHANGE_L: i32 = 3;
    /// Deprecated, without effect.
    pub const CHANGE_R: i32 = 4;
    /// Largest datagram now, bytes.
    pub const GET_CUR_MPS: i32 = 5;
    /// Whether the server, not the client, holds TIMEWAIT.
    pub const SERVER_TIMEWAIT: i32 = 6;
    /// Checksum Coverage of what is sent.
    pub const SEND_CSCOV: i32 = 10;
    /// Least Checksum Coverage of what is received.
    pub const RECV_CSCOV: i32 = 11;
    /// The CCIDs there are, a byte each.
    pub const AVAILABLE_CCIDS: i32 = 12;
    /// CCIDs of both directions, a byte each, most preferred first.
    pub const CCID: i32 = 13;
    /// CCIDs for what is sent.
    pub const TX_CCID: i32 = 14;
    /// CCIDs for what is received.
    pub const RX_CCID: i32 = 15;
    /// 0: datagrams leave in order; 1: those of higher priority first.
    pub const QPOLICY_ID: i32 = 16;
    /// Most datagrams in the send queue; 0: no limit.
    pub const QPOLICY_TXQLEN: i32 = 17;
}
