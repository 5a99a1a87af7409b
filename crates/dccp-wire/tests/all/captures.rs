//! Packets of Linux kernels, read by this crate and by tshark.

use crate::common::tshark::{available, frames, root};
use dccp_wire::{MpOption, Opt, Options, Packet, PacketType, Seq, checksum};
use std::path::PathBuf;

/// File name of a capture, and its number of packets of each type.
const CAPTURES: [(&str, [usize; 10]); 5] = [
    ("plain_ccid2.pcap", [1, 1, 0, 148, 189, 0, 1, 1, 0, 0]),
    ("plain_ccid3.pcap", [1, 1, 188, 190, 1, 0, 1, 1, 0, 0]),
    ("plain_ccid5.pcap", [1, 1, 0, 131, 189, 0, 1, 1, 0, 0]),
    ("raw_mp.pcap", [2, 2, 0, 6, 11, 0, 2, 2, 0, 0]),
    ("rawtest-debian.pcap", [1, 1, 0, 2, 6, 0, 1, 1, 0, 0]),
];

fn path(name: &str) -> PathBuf {
    root().join("tests/pcaps").join(name)
}

/// Returns the type bytes of an option area in order, read without the parser.
fn kinds(area: &[u8]) -> Vec<u64> {
    let mut kinds = Vec::new();
    let mut at = 0;
    while at < area.len() {
        if area[at] != 0 {
            kinds.push(u64::from(area[at]));
        }
        at += if area[at] < 32 { 1 } else { usize::from(area[at + 1]) };
    }
    kinds
}

#[test]
fn every_packet_decodes() {
    for (name, counts) in CAPTURES {
        let mut seen = [0; 10];
        for (number, ip) in (1..).zip(crate::common::pcap::read(&path(name))) {
            let what = format!("frame {number} of {name}");
            let (bytes, src, dst) = crate::common::ip::unwrap_native(&ip).unwrap();
            assert!(checksum::verify(bytes, src, dst), "{what}");
            let packet = Packet::parse(bytes).unwrap_or_else(|error| panic!("{what}: {error:?}"));
            assert!(!packet.header.short);
            seen[usize::from(packet.header.ptype.number())] += 1;
            let options: Vec<_> = packet.options().collect();
            for option in &options {
                // The kernels send only options from RFC 4340 and RFC 9897, and those of CCID 3.
                match option {
                    Ok(Opt::Unknown(..) | Opt::Invalid(..)) | Err(_) => panic!("{what}: {option:?}"),
                    Ok(Opt::Ccid(kind, _)) => assert!((192..=194).contains(kind), "{what}"),
                    Ok(_) => {}
                }
            }
            assert_eq!(options.len(), kinds(packet.option_bytes).len(), "{what}");
        }
        assert_eq!(seen, counts, "{name}");
    }
}

/// Checks the multipath options of a session with the reference kernel, in capture order.
#[test]
fn multipath_session() {
    const CLIENT_CI: u32 = 0x2139_6342;
    const SERVER_CI: u32 = 0x0ce4_6589;
    const CLIENT_KEY: &[u8] = &[0x4e, 0xcb, 0x7d, 0x57, 0xed, 0x04, 0x9c, 0xdc];
    const SERVER_KEY: &[u8] = &[0x09, 0xc4, 0x31, 0x54, 0x7b, 0x69, 0xfb, 0xa1];
    let plain = |key: &[u8]| [&[0], key].concat();
    let (client_keys, server_keys) = (plain(CLIENT_KEY), plain(SERVER_KEY));
    let hmac_b = [0x06, 0x41, 0x11, 0xac, 0x9a, 0x81, 0xf0, 0x90, 0xb4, 0xdd];
    let hmac_a = [0x2d, 0x6b, 0x96, 0x31, 0xf4, 0xfc, 0xab, 0x04, 0x27, 0x56];

    let capture = crate::common::pcap::read(&path("raw_mp.pcap"));
    let mut client_seqs = Vec::new();
    let mut server_seqs = Vec::new();
    for (number, ip) in (1..).zip(&capture) {
        let packet = Packet::parse(crate::common::ip::unwrap_native(ip).unwrap().0).unwrap();
        let mp: Vec<_> = packet
            .options()
            .filter_map(|option| match option {
                Ok(Opt::Mp(mp)) => Some(mp),
                _ => None,
            })
            .collect();
        let from_client = packet.header.dst_port == 5002;
        match (number, &mp[..]) {
            (1, mp) => assert_eq!(mp, [MpOption::Key { ci: CLIENT_CI, keys: &client_keys }]),
            (2, mp) => assert_eq!(mp, [MpOption::Key { ci: SERVER_CI, keys: &server_keys }]),
            (5, mp) => {
                assert_eq!(mp, [MpOption::Join { addr_id: 2, ci: SERVER_CI, nonce: 0x1d0d_eb99 }])
            }
            (6, &[join, MpOption::Hmac(hmac)]) => {
                assert_eq!(join, MpOption::Join { addr_id: 0, ci: CLIENT_CI, nonce: 0x267e_4e98 });
                assert_eq!(hmac[..10], hmac_b);
            }
            (7, &[MpOption::Hmac(hmac)]) => assert_eq!(hmac[..10], hmac_a),
            (22 | 23, mp) => assert_eq!(mp, [MpOption::Close(SERVER_KEY)]),
            (_, &[MpOption::Seq(seq)]) if from_client => client_seqs.push(seq),
            (_, &[MpOption::Seq(seq)]) => server_seqs.push(seq),
            (_, mp) => assert_eq!(mp, [], "frame {number}"),
        }
        // Both subflows request Multipath Capable and get version 0.
        let capable = packet.options().find_map(|option| match option {
            Ok(Opt::ChangeR(10, value) | Opt::ConfirmL(10, value)) => Some(value),
            _ => None,
        });
        let handshake = matches!(packet.header.ptype, PacketType::Request | PacketType::Response);
        assert_eq!(capable.is_some(), handshake, "frame {number}");
        assert!(capable.is_none_or(|versions| versions.iter().all(|version| *version == 0)));
    }
    let count_from_one = |to| (1..=to).map(Seq::new).collect::<Vec<_>>();
    assert_eq!(client_seqs, count_from_one(6));
    assert_eq!(server_seqs, count_from_one(5));
}

#[test]
fn tshark_agrees() {
    if !available("captures") {
        return;
    }
    let fields = [
        "dccp.type",
        "dccp.seq_raw",
        "dccp.ack_raw",
        "dccp.option_type",
        "mpdccp.subtype",
        "mpdccp.seq",
        "mpdccp.key.ci",
        "mpdccp.join.nonce",
        "dccp.checksum.status",
        "_ws.expert.message",
        "_ws.malformed",
    ];
    for (name, _) in CAPTURES {
        let frames = frames(&path(name), &fields, &[]);
        let capture = crate::common::pcap::read(&path(name));
        assert_eq!(frames.len(), capture.len());
        for (number, (frame, ip)) in (1..).zip(frames.iter().zip(&capture)) {
            let what = format!("frame {number} of {name}");
            let packet = Packet::parse(crate::common::ip::unwrap_native(ip).unwrap().0).unwrap();
            let header = packet.header;
            assert_eq!(frame.numbers("dccp.type"), [u64::from(header.ptype.number())], "{what}");
            assert_eq!(frame.numbers("dccp.seq_raw"), [header.seq.value()], "{what}");
            assert_eq!(frame.numbers("dccp.ack_raw"), Vec::from_iter(header.ack.map(Seq::value)), "{what}");
            let mut options = frame.numbers("dccp.option_type");
            options.retain(|kind| *kind != 0);
            assert_eq!(options, kinds(packet.option_bytes), "{what}");
            let (mut subtypes, mut seqs, mut cis, mut nonces) = (vec![], vec![], vec![], vec![]);
            for option in Options::new(packet.option_bytes) {
                subtypes.push(match option.unwrap() {
                    Opt::Mp(MpOption::Join { nonce, .. }) => {
                        nonces.push(u64::from(nonce));
                        1
                    }
                    Opt::Mp(MpOption::Key { ci, .. }) => {
                        cis.push(u64::from(ci));
                        3
                    }
                    Opt::Mp(MpOption::Seq(seq)) => {
                        seqs.push(seq.value());
                        4
                    }
                    Opt::Mp(MpOption::Hmac(_)) => 5,
                    Opt::Mp(MpOption::Close(_)) => 10,
                    Opt::Mp(other) => panic!("{what}: {other:?}"),
                    _ => continue,
                });
            }
            assert_eq!(frame.numbers("mpdccp.subtype"), subtypes, "{what}");
            assert_eq!(frame.numbers("mpdccp.seq"), seqs, "{what}");
            assert_eq!(frame.numbers("mpdccp.key.ci"), cis, "{what}");
            assert_eq!(frame.numbers("mpdccp.join.nonce"), nonces, "{what}");
            assert_eq!(frame.numbers("dccp.checksum.status"), [1], "{what}");
            assert_eq!(frame.get("_ws.expert.message"), [""; 0], "{what}");
            assert_eq!(frame.get("_ws.malformed"), [""; 0], "{what}");
        }
    }
}
