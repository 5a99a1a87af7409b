//! Reads the options of a received packet (RFC 4340 section 5.8).

use super::dropped;
use crate::ccid;
use crate::features::{Error, Negotiator, Side};
use alloc::borrow::Cow;
use alloc::vec::Vec;
use dccp_wire::{
    MpOption, Opt, OptionBuf, OptionError, Packet, PacketType, Reset, ResetCode, Seq, checksum, feature,
};
use mpdccp_units::Duration;

/// The options of one packet, except feature options, which the [`Negotiator`] handles.
#[derive(Debug, Default)]
pub(super) struct Seen<'a> {
    /// The cells of all Ack Vector options, concatenated. Packets reported in Data Dropped are marked in the
    /// cells.
    pub(super) vector: Cow<'a, [u8]>,
    /// Blocks of all Data Dropped options, concatenated.
    pub(super) dropped: Cow<'a, [u8]>,
    /// Elapsed Time; on a Response, the elapsed time of a Timestamp Echo. On other packets, the echo does not
    /// refer to the acknowledged packet.
    pub(super) elapsed: Duration,
    pub(super) timestamp: Option<u32>,
    pub(super) ndp: Option<u64>,
    /// Whether the packet's data does not match the sender's Data Checksum (RFC 4340 section 9.3).
    pub(super) corrupt: bool,
    /// Init Cookie options, encoded.
    pub(super) cookies: Vec<u8>,
    pub(super) slow_receiver: bool,
    pub(super) for_ccid: bool,
    /// Whether the packet had feature options.
    pub(super) features: bool,
}

/// Returns a duration of `n` units of 10 microseconds (RFC 4340 section 13.2).
fn ticks(n: u32) -> Duration {
    Duration::from_micros(u64::from(n) * 10)
}

fn reset(code: ResetCode, OptionError { option, data: [a, b] }: OptionError) -> Reset {
    Reset { code, data: [option, a, b] }
}

/// Reads all options of a valid packet. On error, returns the Reset to send. `multipath` says whether the
/// owner reads multipath options.
pub(super) fn read<'a>(
    packet: &Packet<'a>,
    seq: Seq,
    ack: Option<Seq>,
    multipath: bool,
    features: &mut Negotiator,
) -> Result<Seen<'a>, Reset> {
    let mut seen = Seen::default();
    let ptype = packet.header.ptype;
    let data_type = ptype == PacketType::Data;
    let order = features.order(seq, ack);
    let mut echo_elapsed = Duration::ZERO;
    let mut crc = None;
    let mut mandatory: Option<OptionError> = None;

    let mut options = packet.options();
    while let Some(next) = options.next() {
        // RFC 4340 section 5.8: an option with an invalid length and all options after it are ignored, so a
        // Mandatory before such an option is the last option.
        let Ok(option) = next else { break };
        if data_type && !allowed_on_data(&option) {
            continue;
        }
        let culprit = options.culprit();
        let is_mandatory = mandatory.take().is_some();
        let mut understood = true;
        match option {
            // Two consecutive Mandatory options are an error (RFC 4340 section 5.8.2). A Mandatory at the end
            // of the options is also an error, checked below.
            Opt::Mandatory if is_mandatory => return Err(reset(ResetCode::OptionError, culprit)),
            Opt::Mandatory => mandatory = Some(culprit),
            Opt::ChangeL(..) | Opt::ChangeR(..) | Opt::ConfirmL(..) | Opt::ConfirmR(..) => {
                match features.handle(order, &option, is_mandatory) {
                    Ok(()) => seen.features = true,
                    Err(Error::Mandatory) => return Err(reset(ResetCode::MandatoryError, culprit)),
                    Err(Error::Invalid) => return Err(reset(ResetCode::OptionError, culprit)),
                }
            }
            Opt::AckVector(_, cells) if ack.is_some() => append(&mut seen.vector, cells),
            Opt::DataDropped(blocks) if ack.is_some() => append(&mut seen.dropped, blocks),
            Opt::ElapsedTime(t) if ack.is_some() => seen.elapsed = ticks(t),
            Opt::TimestampEcho(_, elapsed) if ptype == PacketType::Response => {
                echo_elapsed = ticks(elapsed);
            }
            Opt::TimestampEcho(..) => {}
            Opt::Timestamp(t) => seen.timestamp = Some(t),
            Opt::NdpCount(n) => seen.ndp = Some(n),
            Opt::DataChecksum(claimed) => crc = Some(claimed),
            Opt::SlowReceiver => seen.slow_receiver = true,
            // RFC 4340 section 8.1.4: Init Cookies are not allowed on Request.
            Opt::InitCookie(_) if ptype == PacketType::Response => {
                let mut buf = OptionBuf::new();
                buf.push(&option);
                seen.cookies.extend_from_slice(buf.as_bytes());
            }
            Opt::Mp(mp) => understood = multipath && !matches!(mp, MpOption::Unknown(..)),
            Opt::Ccid(kind, _) => {
                seen.for_ccid = true;
                let ccid = u8::try_from(features.value(feature::CCID, Side::Local)).unwrap_or(0);
                understood = ccid::has_option(ccid, kind);
            }
            _ => understood = false,
        }
        if is_mandatory && !understood {
            return Err(reset(ResetCode::MandatoryError, culprit));
        }
    }
    if let Some(culprit) = mandatory {
        return Err(reset(ResetCode::OptionError, culprit));
    }
    // Computed once per packet, because a packet has room for more than a hundred of these options.
    seen.corrupt = crc.is_some_and(|crc| crc != checksum::crc32c(packet.payload));
    if seen.features {
        features.note(seq);
    }
    if seen.elapsed.is_zero() {
        seen.elapsed = echo_elapsed;
    }
    if !seen.dropped.is_empty() {
        seen.vector = Cow::Owned(dropped::mark(&seen.vector, &seen.dropped));
    }
    Ok(seen)
}

/// Returns whether Data may have this option (RFC 4340 table 3, column "DCCP-Data?"). All other options are
/// ignored on Data, so that blindly injected Data does no harm.
fn allowed_on_data(option: &Opt<'_>) -> bool {
    matches!(
        option,
        Opt::SlowReceiver
            | Opt::NdpCount(_)
            | Opt::Timestamp(_)
            | Opt::TimestampEcho(..)
            | Opt::DataChecksum(_)
            | Opt::Mp(_)
            | Opt::Ccid(..)
    )
}

fn append<'a>(to: &mut Cow<'a, [u8]>, more: &'a [u8]) {
    if to.is_empty() {
        *to = Cow::Borrowed(more);
    } else {
        to.to_mut().extend_from_slice(more);
    }
}
