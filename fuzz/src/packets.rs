//! Makes packets and options that are almost valid.

use crate::unstructured::Unstructured;
use dccp_wire::{Header, MpOption, Opt, OptionBuf, PacketType, Reset, ResetCode, Seq};

/// Makes plausible options, and some invalid bytes.
pub(crate) fn options(input: &mut Unstructured<'_>) -> Vec<u8> {
    let mut buf = OptionBuf::new();
    for _ in 0..input.below(5) {
        let kind = input.below(26);
        let (data, small) = (input.bytes(24), input.byte());
        let number = if kind > 4 { input.number() } else { 0 };
        let feature = if small < 12 { small } else { small % 32 };
        buf.push(&match kind {
            0 => Opt::ChangeL(feature, &data),
            1 => Opt::ChangeR(feature, &data),
            2 => Opt::ConfirmL(feature, &data),
            3 => Opt::ConfirmR(feature, &data),
            4 => Opt::AckVector(small.is_multiple_of(2), &data),
            5 => Opt::InitCookie(&data),
            6 => Opt::Timestamp(number),
            7 => Opt::Mandatory,
            8 => Opt::SlowReceiver,
            9 => Opt::DataDropped(&data),
            10 => Opt::NdpCount(u64::from(number)),
            11 => Opt::TimestampEcho(number, number >> 8),
            12 => Opt::ElapsedTime(number >> 16),
            13 => Opt::DataChecksum(number),
            14 | 15 => Opt::Ccid(128 | small, &data),
            16 => Opt::Mp(MpOption::Seq(Seq::new(number.into()))),
            17 => Opt::Mp(MpOption::Join { addr_id: small, ci: number, nonce: number }),
            18 => Opt::Mp(MpOption::Key { ci: number, keys: &data }),
            19 => Opt::Mp(MpOption::Close(&data)),
            20 => Opt::Mp(MpOption::FastClose(&data)),
            21 => Opt::Mp(MpOption::Exp(&data)),
            22 => Opt::Mp(MpOption::Confirm(&data)),
            _ => {
                // An option of any type. Its length may be wrong.
                let length = if number.is_multiple_of(4) { number as u8 } else { data.len() as u8 + 2 };
                let bytes = [&[small, length], &data[..]].concat();
                buf.extend(&bytes);
                continue;
            }
        });
    }
    let mut bytes = buf.as_bytes().to_vec();
    bytes.truncate(400);
    bytes
}

/// Makes a packet that the sender of `last` might send next.
pub(crate) fn packet(input: &mut Unstructured<'_>, last: &Header) -> Vec<u8> {
    // Packets that end the connection must be rare, because packets after them have no effect.
    let seldom = if input.one_in(8) { 16 } else { 5 };
    let types = [4, 3, 2, 8, 9, 0, 1, 4, 2, 3, 5, 6, 7, 10, 11, 15];
    let ptype = PacketType::from_number(types[input.below(types.len()) % seldom.max(types.len() - 6)]);
    let header = Header {
        ccval: input.byte() & 15,
        cscov: if input.one_in(8) { input.byte() & 15 } else { 0 },
        ptype,
        short: input.one_in(6),
        seq: input.near(last.seq),
        ack: Some(input.near(last.ack.unwrap_or_default())),
        service_code: Some(if input.one_in(16) { input.number() } else { last.service_code.unwrap_or(7) }),
        reset: Some(Reset { code: ResetCode::from_number(input.byte()), data: [0; 3] }),
        ..*last
    };
    let (options, payload) = (options(input), input.bytes(60));
    let mut bytes = vec![0; header.packet_len(options.len(), payload.len())];
    header.emit(&options, &mut bytes).copy_from_slice(&payload);
    if input.one_in(10) {
        let at = input.below(bytes.len());
        bytes[at] ^= 1 << input.below(8);
    }
    bytes
}
