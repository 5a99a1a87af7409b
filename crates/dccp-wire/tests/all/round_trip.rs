//! Everything that can be written is read back unchanged, and parsing never panics.

use core::net::IpAddr;
use dccp_wire::ack_vector::{MAX_RUN, State, cell, runs};
use dccp_wire::{
    Header, KeyType, MAX_OPTIONS, MpOption, Opt, OptionBuf, Options, Packet, PacketType, Reset, ResetCode,
    RttType, Seq,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Leaks the bytes to get a static lifetime, which keeps the strategies short.
fn leak(bytes: Vec<u8>) -> &'static [u8] {
    Vec::leak(bytes)
}

fn bytes(len: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = &'static [u8]> {
    vec(any::<u8>(), len).prop_map(leak)
}

fn seq() -> impl Strategy<Value = Seq> {
    any::<u64>().prop_map(Seq::new)
}

fn header() -> impl Strategy<Value = Header> {
    let numbers = (any::<bool>(), seq(), seq(), any::<u32>());
    (0..=10u8, any::<(u16, u16)>(), 0..16u8, numbers, any::<(u8, [u8; 3])>()).prop_map(
        |(kind, (src_port, dst_port), ccval, (short, seq, ack, service_code), (code, data))| {
            let ptype = PacketType::from_number(kind);
            let short = short && ptype.allows_short();
            let cut = |seq: Seq| if short { Seq::new(seq.value() & 0xff_ffff) } else { seq };
            Header {
                src_port,
                dst_port,
                ccval,
                cscov: 0,
                ptype,
                short,
                seq: cut(seq),
                ack: ptype.has_ack().then(|| cut(ack)),
                service_code: ptype.has_service_code().then_some(service_code),
                reset: (ptype == PacketType::Reset)
                    .then(|| Reset { code: ResetCode::from_number(code), data }),
            }
        },
    )
}

fn key_list() -> impl Strategy<Value = &'static [u8]> {
    let known = prop_oneof![
        vec(any::<u8>(), 8).prop_map(|mut key| {
            key.insert(0, 0);
            key
        }),
        vec(any::<u8>(), 64).prop_map(|mut key| {
            key.insert(0, 255);
            key
        }),
    ];
    let unknown = option::of((1..255u8, vec(any::<u8>(), 0..40)));
    (vec(known, 0..3), unknown).prop_map(|(known, unknown)| {
        let mut list = known.concat();
        if let Some((kind, key)) = unknown {
            list.push(kind);
            list.extend(key);
        }
        leak(list)
    })
}

fn mp_option() -> impl Strategy<Value = MpOption<'static>> {
    let rtt_kind = prop_oneof![
        Just(RttType::Raw),
        Just(RttType::Min),
        Just(RttType::Max),
        Just(RttType::Smooth),
        (4..=255u8).prop_map(RttType::Other)
    ];
    prop_oneof![
        bytes(0..=252).prop_map(MpOption::Confirm),
        any::<(u8, u32, u32)>().prop_map(|(addr_id, ci, nonce)| MpOption::Join { addr_id, ci, nonce }),
        bytes(0..=252).prop_map(MpOption::FastClose),
        (any::<u32>(), key_list()).prop_map(|(ci, keys)| MpOption::Key { ci, keys }),
        seq().prop_map(MpOption::Seq),
        any::<[u8; 20]>().prop_map(|hmac| MpOption::Hmac(Box::leak(Box::new(hmac)))),
        (rtt_kind, any::<(u32, u32)>()).prop_map(|(kind, (rtt_ms, age_ms))| MpOption::Rtt {
            kind,
            rtt_ms,
            age_ms
        }),
        any::<(u8, u32, IpAddr, Option<u16>)>().prop_map(|(addr_id, nonce, addr, port)| MpOption::AddAddr {
            addr_id,
            nonce,
            addr,
            port
        }),
        any::<(u8, u32)>().prop_map(|(addr_id, nonce)| MpOption::RemoveAddr { addr_id, nonce }),
        (0..16u8).prop_map(MpOption::Prio),
        bytes(0..=252).prop_map(MpOption::Close),
        bytes(0..=252).prop_map(MpOption::Exp),
        (12..=255u8, bytes(0..=252)).prop_map(|(subtype, data)| MpOption::Unknown(subtype, data)),
    ]
}

/// Generates elapsed times around the limits of their encodings.
fn elapsed() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), 0..=0xffffu32, 0xfff0..=0x1_0010u32, any::<u32>()]
}

fn option() -> impl Strategy<Value = Opt<'static>> {
    prop_oneof![
        Just(Opt::Mandatory),
        Just(Opt::SlowReceiver),
        (any::<u8>(), bytes(0..=252)).prop_map(|(f, v)| Opt::ChangeL(f, v)),
        (any::<u8>(), bytes(0..=252)).prop_map(|(f, v)| Opt::ConfirmL(f, v)),
        (any::<u8>(), bytes(0..=252)).prop_map(|(f, v)| Opt::ChangeR(f, v)),
        (any::<u8>(), bytes(0..=252)).prop_map(|(f, v)| Opt::ConfirmR(f, v)),
        bytes(0..=253).prop_map(Opt::InitCookie),
        (0..48u32).prop_flat_map(|bits| 0..=(1u64 << bits)).prop_map(Opt::NdpCount),
        (any::<bool>(), bytes(0..=253)).prop_map(|(nonce, cells)| Opt::AckVector(nonce, cells)),
        bytes(0..=253).prop_map(Opt::DataDropped),
        any::<u32>().prop_map(Opt::Timestamp),
        (any::<u32>(), elapsed()).prop_map(|(echo, elapsed)| Opt::TimestampEcho(echo, elapsed)),
        elapsed().prop_map(Opt::ElapsedTime),
        any::<u32>().prop_map(Opt::DataChecksum),
        mp_option().prop_map(Opt::Mp),
        (128..=255u8, bytes(0..=253)).prop_map(|(kind, data)| Opt::Ccid(kind, data)),
        (3..32u8).prop_map(|kind| Opt::Unknown(kind, &[])),
        (prop_oneof![Just(45u8), 47..128u8], bytes(0..=253))
            .prop_map(|(kind, data)| Opt::Unknown(kind, data)),
    ]
}

/// Generates options that fit into one packet, and their encoding.
fn options() -> impl Strategy<Value = (Vec<Opt<'static>>, OptionBuf)> {
    vec(option(), 0..12).prop_map(|mut wanted| {
        let mut buf = OptionBuf::new();
        wanted.retain(|option| buf.push(option));
        // Padding follows the options, and a Mandatory directly before padding would count as padding, so the
        // list must not end with Mandatory.
        if wanted.last() == Some(&Opt::Mandatory) {
            wanted.push(Opt::SlowReceiver);
            if !buf.push(&Opt::SlowReceiver) {
                wanted.clear();
                buf.clear();
            }
        }
        (wanted, buf)
    })
}

proptest! {
    #[test]
    fn packets((header, (written, buf)) in (header(), options()), data in vec(any::<u8>(), 0..64), cover in 0..16u8) {
        let cscov = if usize::from(cover.saturating_sub(1)) * 4 <= data.len() { cover } else { 0 };
        let header = Header { cscov, ..header };
        let mut packet = vec![0xaa; header.packet_len(buf.len(), data.len())];
        header.emit(buf.as_bytes(), &mut packet).copy_from_slice(&data);
        let read = Packet::parse(&packet).unwrap();
        prop_assert_eq!(read.header, header);
        prop_assert_eq!(read.payload, &data[..]);
        prop_assert_eq!(read.options().collect::<Result<Vec<_>, _>>(), Ok(written));
        // RFC 6773 section 3.3: the checksum is zero in UDP.
        prop_assert_eq!(&packet[6..8], &[0, 0]);
    }

    #[test]
    fn one_option(option in option()) {
        let mut buf = OptionBuf::new();
        prop_assert!(buf.push(&option));
        let mut read = Options::new(buf.as_bytes());
        prop_assert_eq!(read.next(), Some(Ok(option)));
        prop_assert_eq!(read.next(), None);
        let culprit = read.culprit();
        prop_assert_eq!(culprit.option, buf.as_bytes()[0]);
        // Encoding the parsed value again gives the same bytes.
        let mut again = OptionBuf::new();
        again.push(&option);
        prop_assert_eq!(again.as_bytes(), buf.as_bytes());
    }

    #[test]
    fn confirm_holds_options(numbers in vec((seq(), any::<(u8, u32)>()), 1..8)) {
        let mut inner = OptionBuf::new();
        let mut written = Vec::new();
        for (seq, (addr_id, nonce)) in numbers {
            written.push(Opt::Mp(MpOption::Seq(seq)));
            written.push(Opt::Mp(MpOption::RemoveAddr { addr_id, nonce }));
        }
        written.iter().for_each(|option| assert!(inner.push(option)));
        let mut outer = OptionBuf::new();
        prop_assert!(outer.push(&Opt::Mp(MpOption::Confirm(inner.as_bytes()))));
        let Some(Ok(Opt::Mp(MpOption::Confirm(verbatim)))) = Options::new(outer.as_bytes()).next() else {
            panic!("the option is not a confirmation");
        };
        prop_assert_eq!(Options::new(verbatim).collect::<Result<Vec<_>, _>>(), Ok(written));
    }

    #[test]
    fn key_lists(ci in any::<u32>(), keys in vec((any::<bool>(), any::<u8>()), 0..4)) {
        let keys: Vec<_> = keys
            .into_iter()
            .map(|(plain, fill)| if plain { (KeyType::Plain, vec![fill; 8]) } else { (KeyType::Experimental, vec![fill; 64]) })
            .collect();
        let list: Vec<u8> = keys.iter().flat_map(|(kind, key)| [&[kind.number()], &key[..]].concat()).collect();
        let mut buf = OptionBuf::new();
        let fits = buf.push(&Opt::Mp(MpOption::Key { ci, keys: &list }));
        prop_assert_eq!(fits, list.len() + 8 <= 255);
        if fits {
            let Some(Ok(Opt::Mp(MpOption::Key { keys: read, .. }))) = Options::new(buf.as_bytes()).next() else {
                panic!("the option is not MP_KEY");
            };
            prop_assert_eq!(MpOption::keys(read).map(|(kind, key)| (kind, key.to_vec())).collect::<Vec<_>>(), keys);
        }
    }

    #[test]
    fn ack_vector_runs(written in vec((0..4u8, 1..=MAX_RUN), 0..=253)) {
        let state = |n| [State::Received, State::ReceivedEcnMarked, State::Reserved, State::NotYetReceived][usize::from(n)];
        let written: Vec<_> = written.into_iter().map(|(n, packets)| (state(n), packets)).collect();
        let cells: Vec<u8> = written.iter().map(|&(state, packets)| cell(state, packets)).collect();
        prop_assert_eq!(runs(&cells).collect::<Vec<_>>(), written);
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in vec(any::<u8>(), 0..200)) {
        read_everything(&bytes);
    }

    /// The bytes resemble a packet closely enough to pass the header checks.
    #[test]
    fn broken_packets_are_read_without_panic(
        (header, (_, buf)) in (header(), options()),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut packet = vec![0; header.packet_len(buf.len(), 8)];
        header.emit(buf.as_bytes(), &mut packet);
        for (at, byte) in damage {
            *at.get_mut(&mut packet[..]) = byte;
        }
        read_everything(&packet);
        read_everything(&packet[..cut.index(packet.len())]);
    }

    #[test]
    fn an_option_area_never_outgrows_a_header(written in vec(option(), 0..40)) {
        let (mut buf, mut joined) = (OptionBuf::new(), OptionBuf::new());
        for option in &written {
            let before = buf.len();
            let fits = buf.push(option);
            if !fits {
                prop_assert_eq!(buf.len(), before);
            }
            // Encoding the option alone and appending the result gives the same bytes.
            let mut alone = OptionBuf::new();
            prop_assert_eq!(alone.push(option) && joined.extend(alone.as_bytes()), fits);
            prop_assert_eq!(joined.as_bytes(), buf.as_bytes());
        }
        prop_assert!(buf.len() <= MAX_OPTIONS && buf.room() == MAX_OPTIONS - buf.len());
    }
}

fn read_everything(bytes: &[u8]) {
    let read = |area| {
        let mut options = Options::new(area);
        while let Some(option) = options.next() {
            options.culprit();
            match option {
                Ok(Opt::AckVector(_, cells)) => assert_eq!(runs(cells).count(), cells.len()),
                Ok(Opt::Mp(MpOption::Key { keys, .. })) => MpOption::keys(keys).for_each(drop),
                Ok(Opt::Mp(MpOption::Confirm(inner))) => Options::new(inner).for_each(drop),
                _ => {}
            }
        }
    };
    read(bytes);
    MpOption::keys(bytes).for_each(drop);
    if let Ok(packet) = Packet::parse(bytes) {
        assert!(packet.header.len() + packet.option_bytes.len() + packet.payload.len() == bytes.len());
        read(packet.option_bytes);
    }
    let ip = IpAddr::from([127, 0, 0, 1]);
    dccp_wire::checksum::verify(bytes, ip, ip);
}

#[test]
fn longest_header_fits_its_data_offset() {
    let mut buf = OptionBuf::new();
    while buf.push(&Opt::SlowReceiver) {}
    let reset = Reset { code: ResetCode::AbruptMpTermination, data: [1, 2, 3] };
    let header = Header::new((1, 2), PacketType::Reset, Seq::new(1));
    let header = Header { reset: Some(reset), ..header };
    let mut packet = vec![0; header.packet_len(buf.len(), 1)];
    header.emit(buf.as_bytes(), &mut packet)[0] = 9;
    let read = Packet::parse(&packet).unwrap();
    assert_eq!((packet[4], read.options().count(), read.payload), (255, MAX_OPTIONS, &[9][..]));
    // A missing acknowledgement number is sent as zero.
    assert_eq!((read.header.ack, read.header.reset), (Some(Seq::new(0)), Some(reset)));
}
