use alloc::boxed::Box;
use alloc::vec::Vec;
use dccp_cc::{CcConfig, Controller};

/// For [`Config::least_request`]: more than this stack answers, Init Cookie included.
pub const PADDED_REQUEST: u16 = 256;

/// How the congestion controller of a sending half is set up.
#[derive(Clone, Copy, Debug, Default)]
pub struct CcOptions {
    /// Windows in packets rather than bytes (CCID 5 and later; CCID 2 always counts packets).
    pub packets: bool,
    /// CCID 5 exactly after the BBRv1 draft.
    pub draft: bool,
    /// CCIDs 3 and 4 without the recommended reduction of oscillations (RFC 5348 section 4.5).
    pub plain_tfrc: bool,
    /// A congestion control from outside this crate, beside those it knows.
    pub experiment: Option<Experiment>,
}

/// A congestion control from outside under a CCID of the experimental range. Its feedback are Ack Vectors, as with CCID 5; both ends
/// set it to have it negotiated.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// 248 to 254 (RFC 4340 section 19.5), to be named in [`Config::tx_ccids`] and [`Config::rx_ccids`] too. It hides a CCID of that
    /// number which this crate has.
    pub ccid: u8,
    /// Makes a controller for a new sending half.
    pub controller: fn(&CcConfig) -> Box<dyn Controller>,
}

/// Settings of one connection. `Config::default()` is a single-path CCID 2 connection.
#[derive(Clone, Debug)]
pub struct Config {
    /// Service Code (RFC 4340 section 8.1.2); both ends must agree.
    pub service_code: u32,
    /// Others that a server takes as well; [`Connection::service_code`](crate::Connection::service_code) tells which one it is.
    pub also_services: Vec<u32>,
    /// Take data that comes on Request or Response (RFC 4340 section 8.1.3).
    pub early_data: bool,
    /// CCIDs for our sending half, most preferred first.
    pub tx_ccids: Vec<u8>,
    /// CCIDs we accept for the peer's sending half, most preferred first.
    pub rx_ccids: Vec<u8>,
    /// Negotiate Multipath Capable version 0 (RFC 9897 section 3.1).
    pub multipath: bool,
    /// As server, send one Ack on entering OPEN (RFC 9897 section 3.3).
    pub ack_on_open: bool,
    /// Initial Sequence Window, 32 ..= 2^46-1 (RFC 4340 section 7.5.1); grows with the window.
    pub seq_window: u64,
    /// Initial Ack Ratio we ask the peer for (RFC 4340 section 11.3).
    pub ack_ratio: u16,
    /// Mark data ECN-capable (ECT(0)); off negotiates ECN Incapable.
    pub ecn: bool,
    /// Ask the peer to send NDP Count, and send it when asked (RFC 4340 section 7.7).
    pub ndp_count: bool,
    /// Permit short sequence numbers (RFC 4340 section 7.6.1).
    pub allow_short_seqnos: bool,
    /// Send short sequence numbers if the peer permits it, while the Sequence Window is small: 4 to 8 bytes per packet less, and weaker
    /// protection against forged packets (RFC 4340 section 7.6.2).
    pub short_seqnos: bool,
    /// Least Checksum Coverage to accept data with, 1 to 15 (RFC 4340 section 9.2); 0: only data that is covered whole.
    pub min_coverage: u8,
    /// Checksum Coverage of the data we send, if the peer accepts it; 0: all. In UDP the UDP checksum covers all anyhow.
    pub coverage: u8,
    /// Deliver data whose Data Checksum is wrong too, and tell the peer so (RFC 4340 section 11.7, Drop Code 7).
    pub take_corrupt: bool,
    /// Send a Timestamp on Request, for a round-trip time without the time the server held it (RFC 4340 section 13.1).
    pub timestamps: bool,
    /// Ask that data be covered by a Data Checksum option (RFC 4340 section 9.3.1).
    pub check_data_checksum: bool,
    /// Never send a sequence number now and then (as RFC 9000 section 21.4), and end the connection with Reset code 11, Aggression Penalty, if the
    /// peer acknowledges it: for peers that nobody vouches for, who could have us send faster than the path carries. Without effect while what
    /// we send is under CCID 3 or 4, whose receivers count losses themselves.
    pub skip_numbers: bool,
    /// Largest IP packet of the path, bytes.
    pub mtu: u16,
    /// Find out what the path really carries (RFC 8899); `mtu` is then where that begins and ends.
    pub probe_mtu: bool,
    /// IP and UDP header bytes the encapsulation adds.
    pub overhead: u16,
    /// Requests are padded to this many bytes of DCCP packet: a server that cannot know where they come from answers with no more than it got, so
    /// that nobody can have it flood others, and need not ration answers to those who ask so.
    pub least_request: u16,
    /// Congestion control of our sending half.
    pub cc: CcOptions,
    /// Request retransmissions before giving up.
    pub request_retries: u8,
}

impl Config {
    /// Negotiates this congestion control and no other, both ways.
    pub fn use_experiment(&mut self, experiment: Experiment) {
        self.cc.experiment = Some(experiment);
        self.tx_ccids = alloc::vec![experiment.ccid];
        self.rx_ccids = alloc::vec![experiment.ccid];
    }
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
