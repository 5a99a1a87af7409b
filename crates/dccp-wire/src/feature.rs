//! Feature numbers (RFC 4340 section 6.4; for number 10, RFC 9897 section 3.1).

/// Congestion Control ID, server-priority.
pub const CCID: u8 = 1;
/// Allow Short Seqnos, server-priority.
pub const ALLOW_SHORT_SEQNOS: u8 = 2;
/// Sequence Window, non-negotiable, up to 6 bytes.
pub const SEQUENCE_WINDOW: u8 = 3;
/// ECN Incapable, server-priority.
pub const ECN_INCAPABLE: u8 = 4;
/// Ack Ratio, non-negotiable, 2 bytes.
pub const ACK_RATIO: u8 = 5;
/// Send Ack Vector, server-priority.
pub const SEND_ACK_VECTOR: u8 = 6;
/// Send NDP Count, server-priority.
pub const SEND_NDP_COUNT: u8 = 7;
/// Minimum Checksum Coverage, server-priority.
pub const MIN_CHECKSUM_COVERAGE: u8 = 8;
/// Check Data Checksum, server-priority.
pub const CHECK_DATA_CHECKSUM: u8 = 9;
/// Multipath Capable, server-priority.
pub const MULTIPATH_CAPABLE: u8 = 10;
/// Send Loss Event Rate (RFC 4342 section 8.4), CCID-specific, server-priority.
pub const SEND_LOSS_EVENT_RATE: u8 = 192;
/// Send Timestamps, CCID-specific, server-priority: the receiver puts a Timestamp option on each Ack. This
/// feature is not defined in any RFC. It is used by CCIDs with Ack Vectors, except CCID 2.
pub const SEND_TIMESTAMPS: u8 = 193;
