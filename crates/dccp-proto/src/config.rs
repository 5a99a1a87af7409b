use alloc::boxed::Box;
use alloc::vec::Vec;
use dccp_cc::{CcConfig, Controller};

/// Value for [`Config::least_request`] that is larger than any answer of this stack, even with Init Cookies.
pub const PADDED_REQUEST: u16 = 256;

/// Settings of a sending half's congestion controller.
#[derive(Clone, Copy, Debug, Default)]
pub struct CcOptions {
    /// Count windows in packets instead of bytes (CCID 5 and later; CCID 2 always counts packets).
    pub packets: bool,
    /// With CCIDs 5 and 250, follow the BBR draft exactly, instead of using the tuned variant. All CCIDs that
    /// use Ack Vectors then also have only TCP's traditional loss detection.
    pub draft: bool,
    /// CCIDs 3 and 4: disable the recommended reduction of oscillations (RFC 5348 section 4.5).
    pub plain_tfrc: bool,
    /// A congestion control that this crate does not contain, in addition to the known ones.
    pub experiment: Option<Experiment>,
}

/// A congestion control from outside this crate, under a CCID of the experimental range. Its receiver sends
/// Ack Vectors, as with CCID 5. Negotiation can choose it only if both ends set it.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// 248 to 254 (RFC 4340 section 19.5). Also list it in [`Config::tx_ccids`] and [`Config::rx_ccids`]. It
    /// replaces a CCID of this crate with the same number.
    pub ccid: u8,
    /// Creates a controller for a new sending half.
    pub controller: fn(&CcConfig) -> Box<dyn Controller>,
}

/// Settings of one connection. `Config::default()` is a connection with one path and CCID 2.
#[derive(Clone, Debug)]
pub struct Config {
    /// Service Code (RFC 4340 section 8.1.2). Both ends must use the same one.
    pub service_code: u32,
    /// Other Service Codes that a server accepts.
    /// [`Connection::service_code`](crate::Connection::service_code) returns the one in use.
    pub also_services: Vec<u32>,
    /// Accept data on a Request or Response (RFC 4340 section 8.1.3).
    pub early_data: bool,
    /// CCIDs for the data we send, most preferred first.
    pub tx_ccids: Vec<u8>,
    /// CCIDs we accept for the data of the peer, most preferred first.
    pub rx_ccids: Vec<u8>,
    /// Negotiate Multipath Capable version 0 (RFC 9897 section 3.1).
    pub multipath: bool,
    /// As a server, send one Ack on entering OPEN (RFC 9897 section 3.3).
    pub ack_on_open: bool,
    /// Initial Sequence Window, 32 ..= 2^46-1 (RFC 4340 section 7.5.1). The Sequence Window grows with the
    /// congestion window.
    pub seq_window: u64,
    /// Initial Ack Ratio requested from the peer (RFC 4340 section 11.3).
    pub ack_ratio: u16,
    /// Mark data as ECN-capable: ECT(0), or ECT(1) for L4S. If off, ECN Incapable is negotiated.
    pub ecn: bool,
    /// Request NDP Count from the peer, and send it on request (RFC 4340 section 7.7).
    pub ndp_count: bool,
    /// Permit short sequence numbers (RFC 4340 section 7.6.1).
    pub allow_short_seqnos: bool,
    /// Send short sequence numbers while the peer permits it and the Sequence Window is small. This saves 4
    /// to 8 bytes per packet but weakens the protection against forged packets (RFC 4340 section 7.6.2).
    pub short_seqnos: bool,
    /// Minimum Checksum Coverage of accepted data, 1 to 15 (RFC 4340 section 9.2). With 0, the checksum must
    /// cover all data.
    pub min_coverage: u8,
    /// Checksum Coverage of the data we send, if the peer accepts it. 0 covers all data. In UDP, the UDP
    /// checksum always covers everything.
    pub coverage: u8,
    /// Deliver data with a wrong Data Checksum as well, and report this to the peer (RFC 4340 section 11.7,
    /// Drop Code 7).
    pub take_corrupt: bool,
    /// Send a Timestamp on Request, for a round-trip time without the server's delay (RFC 4340 section 13.1).
    pub timestamps: bool,
    /// Request a Data Checksum option on data (RFC 4340 section 9.3.1).
    pub check_data_checksum: bool,
    /// Occasionally skip a sequence number (as in RFC 9000 section 21.4). If the peer acknowledges a skipped
    /// number, end the connection with Reset code 11, Aggression Penalty. Use this with unauthenticated
    /// peers, which could otherwise make us send faster than the path allows. This setting has no effect
    /// while our data uses CCID 3 or 4, because the receivers of these CCIDs count losses themselves.
    pub skip_numbers: bool,
    /// Largest IP packet of the path, bytes.
    pub mtu: u16,
    /// Discover the path MTU (RFC 8899). `mtu` is then only the initial value and the maximum.
    pub probe_mtu: bool,
    /// IP and UDP header bytes of the encapsulation.
    pub overhead: u16,
    /// Pad Requests to a DCCP packet of at least this many bytes. A server that cannot verify the source of a
    /// Request answers with no more bytes than it received, so that it cannot amplify an attack. If Requests
    /// are padded, such a server need not limit the rate of its answers to them.
    pub least_request: u16,
    /// Settings of the congestion control of our sending half.
    pub cc: CcOptions,
    /// Number of times that a Request is retransmitted before the client gives up.
    pub request_retries: u8,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            service_code: 0,
            also_services: Vec::new(),
            early_data: false,
            tx_ccids: alloc::vec![2],
            rx_ccids: alloc::vec![2, 5, 3, 4],
            multipath: false,
            ack_on_open: false,
            seq_window: 1024,
            ack_ratio: 2,
            ecn: true,
            ndp_count: false,
            allow_short_seqnos: false,
            short_seqnos: false,
            min_coverage: 0,
            coverage: 0,
            take_corrupt: false,
            timestamps: true,
            check_data_checksum: false,
            skip_numbers: false,
            mtu: 1500,
            probe_mtu: false,
            overhead: 28,
            least_request: 0,
            cc: CcOptions::default(),
            request_retries: 6,
        }
    }
}
