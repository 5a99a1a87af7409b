//! Checks that tshark reads from our packets the values that were written. Wireshark's own dissector reads
//! the RFC 4340 fields in native packets; our Lua dissector reads those in UDP, and all Multipath DCCP
//! fields.

use crate::common::ip::{Encapsulation, wrap};
use crate::common::meaning::{FIELDS, Meaning};
use crate::common::tshark::{Frame, available, frames, scratch};
use core::net::IpAddr;
use dccp_wire::{
    DCCP_UDP_PORT, Header, KeyType, MpOption, Opt, OptionBuf, PacketType, Reset, ResetCode, RttType, Seq,
};

fn header(ptype: PacketType) -> Header {
    Header {
        ack: ptype.has_ack().then_some(Seq::new(0x0102_0304_0506)),
        service_code: ptype.has_service_code().then_some(0x4d50_5455),
        reset: (ptype == PacketType::Reset).then_some(Reset { code: ResetCode::Closed, data: [0; 3] }),
        ..Header::new((0xc35a, 5001), ptype, Seq::new(0xa1b2_c3d4_e5f6))
    }
}

struct Sample {
    header: Header,
    options: Vec<Opt<'static>>,
    /// Number of padding bytes before the options, which is where the Linux kernel puts padding.
    padding: usize,
    payload: &'static [u8],
}

fn mp_options() -> Vec<MpOption<'static>> {
    let key: &[u8] = &[0xd0, 0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7];
    let both = Vec::leak([&[0][..], key, &[255], &[0x5a; 64]].concat());
    let mut groups = OptionBuf::new();
    for mp in [
        MpOption::Seq(Seq::new(77)),
        MpOption::RemoveAddr { addr_id: 3, nonce: 0x0708_090a },
        MpOption::Seq(Seq::new(76)),
        MpOption::Prio(2),
    ] {
        assert!(groups.push(&Opt::Mp(mp)));
    }
    let v4 = IpAddr::from([192, 0, 2, 77]);
    let v6 = IpAddr::from([0x2001, 0xdb8, 1, 2, 3, 4, 5, 6]);
    let rtt = |kind| MpOption::Rtt { kind, rtt_ms: 0x0102_0304, age_ms: 0xf5f6_f7f8 };
    vec![
        MpOption::Confirm(groups.as_bytes().to_vec().leak()),
        MpOption::Join { addr_id: 9, ci: 0xdead_beef, nonce: 0x1234_5678 },
        MpOption::FastClose(key),
        MpOption::Key { ci: 0x0bad_cafe, keys: Vec::leak([&[KeyType::Plain.number()], key].concat()) },
        MpOption::Key { ci: 1, keys: both },
        MpOption::Seq(Seq::new(0xfedc_ba98_7654)),
        MpOption::Hmac(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]),
        rtt(RttType::Raw),
        rtt(RttType::Min),
        rtt(RttType::Max),
        rtt(RttType::Smooth),
        MpOption::AddAddr { addr_id: 1, nonce: 0xa0b0_c0d0, addr: v4, port: None },
        MpOption::AddAddr { addr_id: 2, nonce: 0xa0b0_c0d1, addr: v4, port: Some(6511) },
        MpOption::AddAddr { addr_id: 3, nonce: 0xa0b0_c0d2, addr: v6, port: None },
        MpOption::AddAddr { addr_id: 4, nonce: 0xa0b0_c0d3, addr: v6, port: Some(65000) },
        MpOption::RemoveAddr { addr_id: 200, nonce: 0x0102_0304 },
        MpOption::Prio(0),
        MpOption::Prio(15),
        MpOption::Close(key),
        MpOption::Exp(&[1, 2, 3, 4, 5]),
    ]
}

fn options() -> Vec<Opt<'static>> {
    let mut options = vec![
        Opt::Mandatory,
        Opt::SlowReceiver,
        Opt::ChangeL(1, &[2, 3, 5]),
        Opt::ConfirmL(1, &[2, 2, 3]),
        Opt::ChangeR(6, &[1]),
        Opt::ConfirmR(99, &[]),
        Opt::ChangeL(3, &[0, 0, 0, 1, 0, 0]),
        Opt::ChangeL(5, &[0, 2]),
        Opt::ChangeR(10, &[0x00, 0x10]),
        Opt::ConfirmL(10, &[0x00, 0x00]),
        Opt::InitCookie(&[9, 8, 7, 6, 5, 4, 3]),
        Opt::NdpCount(0),
        Opt::NdpCount(255),
        Opt::NdpCount(256),
        Opt::NdpCount(0x0102_0304_0506),
        Opt::AckVector(false, &[0, 192, 3, 64, 5]),
        Opt::AckVector(true, &[0x3f]),
        Opt::DataDropped(&[0, 160, 3, 162]),
        Opt::Timestamp(0x8765_4321),
        Opt::TimestampEcho(0x1234_5678, 0),
        Opt::TimestampEcho(0x1234_5678, 0xffff),
        Opt::TimestampEcho(0x1234_5678, 0x1_0000),
        Opt::ElapsedTime(7),
        Opt::ElapsedTime(0x1_0001),
        Opt::DataChecksum(dccp_wire::checksum::crc32c(b"123456789")),
        Opt::Ccid(200, &[1, 2, 3]),
        Opt::Ccid(192, &[0, 0, 1, 2]),
        Opt::Ccid(194, &[0, 1, 0, 0]),
        Opt::Unknown(100, &[4, 5, 6]),
        Opt::Unknown(7, &[]),
    ];
    options.extend(mp_options().into_iter().map(Opt::Mp));
    options
}

/// Returns packets of every type, with every option, and with the possible combinations of options.
fn samples() -> Vec<Sample> {
    let plain = |header| Sample { header, options: vec![], padding: 0, payload: b"" };
    let mut samples = Vec::new();
    for number in 0..=10 {
        samples.push(plain(header(PacketType::from_number(number))));
    }
    for ptype in [PacketType::Data, PacketType::Ack, PacketType::DataAck] {
        let long = header(ptype);
        let cut = |seq: Seq| Seq::new(seq.value() & 0xff_ffff);
        let short = Header { short: true, seq: cut(long.seq), ack: long.ack.map(cut), ..long };
        samples.push(Sample { payload: b"short numbers", ..plain(short) });
        let options = vec![Opt::Mp(MpOption::Seq(Seq::new(1))), Opt::SlowReceiver];
        samples.push(Sample { options, payload: b"with options", ..plain(short) });
    }
    for code in 0..=13 {
        let reset = Some(Reset { code: ResetCode::from_number(code), data: [code, 0x22, 0x33] });
        samples.push(plain(Header { reset, ..header(PacketType::Reset) }));
    }
    for cscov in [0, 1, 2, 5, 15] {
        let payload = &[0xc5; 59];
        let options = vec![Opt::Mp(MpOption::Seq(Seq::new(cscov.into())))];
        let header = Header { cscov, ccval: 9, ..header(PacketType::DataAck) };
        samples.push(Sample { payload, options, ..plain(header) });
    }
    for option in options() {
        for (padding, payload) in [(0, &b""[..]), (3, b"payload behind options")] {
            let mut options = vec![option];
            if option == Opt::Mandatory {
                options.push(Opt::SlowReceiver);
            }
            samples.push(Sample { options, padding, payload, ..plain(header(PacketType::DataAck)) });
        }
    }
    let together = options().into_iter().filter(|option| *option != Opt::Mandatory).collect();
    samples.push(Sample { options: together, payload: b"all", ..plain(header(PacketType::Ack)) });
    samples
}

fn encode(sample: &Sample) -> (Vec<u8>, usize) {
    let mut options = OptionBuf::new();
    assert!(options.extend(&[0; 3][..sample.padding]));
    sample.options.iter().for_each(|option| assert!(options.push(option)));
    let mut packet = vec![0; sample.header.packet_len(options.len(), sample.payload.len())];
    sample.header.emit(options.as_bytes(), &mut packet).copy_from_slice(sample.payload);
    (packet, options.len())
}

fn addresses(v6: bool) -> (IpAddr, IpAddr) {
    match v6 {
        false => ([10, 1, 2, 3].into(), [10, 200, 0, 255].into()),
        true => ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(), [0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 2].into()),
    }
}

/// Returns the values of one of our fields in a frame, without padding.
fn read(frame: &Frame, native: bool, field: &(&str, &str, &str)) -> Vec<String> {
    let mut values = frame.get(if native { field.1 } else { field.2 });
    if native && field.0 == "seq" && values.is_empty() {
        // Short sequence numbers have no raw field in Wireshark 4.0.
        values = frame.get("dccp.seq");
    }
    if field.0 == "option_type" {
        values.retain(|kind| kind != "0");
    }
    values
}

fn compare(encapsulation: Encapsulation, v6: bool, arguments: &[&str]) {
    let name = format!("{encapsulation:?}-{}.pcap", if v6 { 6 } else { 4 });
    if !available(&name) {
        return;
    }
    let native = encapsulation == Encapsulation::Native;
    let (src, dst) = addresses(v6);
    let samples = samples();
    let packets: Vec<_> =
        samples.iter().map(|sample| wrap(encapsulation, encode(sample).0, src, dst)).collect();
    let capture = scratch(&name);
    crate::common::pcap::write(&capture, &packets);

    let shown: Vec<_> =
        FIELDS.iter().filter(|field| !(if native { field.1 } else { field.2 }).is_empty()).collect();
    let mut fields: Vec<_> = shown.iter().map(|field| if native { field.1 } else { field.2 }).collect();
    fields.extend([
        "dccp.seq",
        "_ws.expert.message",
        "_ws.malformed",
        "dccp.checksum.status",
        "udp.checksum.status",
    ]);
    let frames = frames(&capture, &fields, arguments);
    assert_eq!(frames.len(), samples.len());
    let mut differences = Vec::new();
    for (number, (frame, sample)) in frames.iter().zip(&samples).enumerate() {
        let what = format!("frame {} of {name}, {:?} {:?}", number + 1, sample.header.ptype, sample.options);
        let mut expect = |field: &str, read: Vec<String>, meant: &[String]| {
            if read != meant {
                differences.push(format!("{what}: {field} is {read:?}, not {meant:?}"));
            }
        };
        let mut meant = Meaning::default();
        meant.header(&sample.header, encode(sample).1);
        sample.options.iter().for_each(|option| meant.option(option));
        meant.bytes("data", sample.payload);
        for field in &shown {
            let values: Vec<_> = meant.0.iter().filter(|v| v.0 == field.0).map(|v| v.1.clone()).collect();
            expect(field.0, read(frame, native, field), &values);
        }
        let status = if native { "dccp.checksum.status" } else { "udp.checksum.status" };
        expect(status, frame.get(status), &["1".to_owned()]);
        expect("expert information", frame.get("_ws.expert.message"), &[]);
        expect("malformed", frame.get("_ws.malformed"), &[]);
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn native_ipv4() {
    compare(Encapsulation::Native, false, &[]);
}

#[test]
fn native_ipv6() {
    compare(Encapsulation::Native, true, &[]);
}

#[test]
fn udp_ipv4() {
    compare(Encapsulation::Udp(DCCP_UDP_PORT), false, &[]);
}

#[test]
fn udp_ipv6() {
    compare(Encapsulation::Udp(DCCP_UDP_PORT), true, &[]);
}

#[test]
fn udp_on_another_port_told() {
    compare(Encapsulation::Udp(7000), false, &["-d", "udp.port==7000,dccpudp"]);
}

/// Writes `packets` to a capture under `name` and reads its frames with tshark.
fn look(name: &str, packets: &[Vec<u8>], fields: &[&str]) -> Option<Vec<Frame>> {
    if !available(name) {
        return None;
    }
    let capture = scratch(name);
    crate::common::pcap::write(&capture, packets);
    let frames = frames(&capture, fields, &[]);
    assert_eq!(frames.len(), packets.len());
    Some(frames)
}

#[test]
fn udp_on_another_port_recognised() {
    // No other protocol uses port 40000, so tshark must recognise our packets by their content. It cannot
    // recognise short sequence numbers or partial coverage, so leave such packets out.
    let (src, dst) = addresses(false);
    let samples: Vec<_> = samples().into_iter().filter(|s| !s.header.short && s.header.cscov == 0).collect();
    let mut packets: Vec<_> =
        samples.iter().map(|s| wrap(Encapsulation::Udp(40000), encode(s).0, src, dst)).collect();
    // These payloads are not DCCP: text, zeros, random bytes.
    let noise: Vec<u8> = (0..200u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for other in [&b"GET / HTTP/1.1 and so on, long enough for a header"[..], &[0; 64], &noise] {
        packets.push(wrap(Encapsulation::Udp(40000), other.to_vec(), src, dst));
    }
    let Some(frames) = look("recognised.pcap", &packets, &["dccpudp.type", "dccpudp.seq"]) else { return };
    for (frame, sample) in frames.iter().zip(&samples) {
        assert_eq!(frame.numbers("dccpudp.type"), [u64::from(sample.header.ptype.number())]);
        assert_eq!(frame.numbers("dccpudp.seq"), [sample.header.seq.value()]);
    }
    for frame in &frames[samples.len()..] {
        assert_eq!(frame.get("dccpudp.type"), [""; 0]);
    }
}

#[test]
fn damage_shows() {
    // Checks that tshark detects errors, without which the tests above would prove nothing.
    let (src, dst) = addresses(false);
    let with = |options| Sample { header: header(PacketType::Ack), options, padding: 0, payload: b"" };
    let mut damaged = wrap(Encapsulation::Native, encode(&with(vec![])).0, src, dst);
    *damaged.last_mut().unwrap() ^= 1;
    let mut packets = vec![damaged];
    // These lengths are invalid for their subtypes. Some are valid in the older draft that the reference
    // kernel implements.
    let short: [&[u8]; 8] = [
        &[1, 0, 0, 0, 0],
        &[3, 0, 0, 0, 0, 5, 0, 1, 2, 3],
        &[4, 1, 2, 3, 4, 5],
        &[5, 1, 2, 3],
        &[6, 0, 0],
        &[7, 1, 192, 0, 2, 1],
        &[8, 1],
        &[9],
    ];
    for data in short {
        packets.push(wrap(Encapsulation::Native, encode(&with(vec![Opt::Invalid(46, data)])).0, src, dst));
        packets.push(wrap(
            Encapsulation::Udp(DCCP_UDP_PORT),
            encode(&with(vec![Opt::Invalid(46, data)])).0,
            src,
            dst,
        ));
    }
    let mp_unknown = with(vec![Opt::Mp(MpOption::Unknown(12, &[1, 2, 3]))]);
    packets.push(wrap(Encapsulation::Native, encode(&mp_unknown).0, src, dst));
    let fields = ["dccp.checksum.status", "mpdccp.malformed", "mpdccp.unassigned", "mpdccp.unknown"];
    let Some(frames) = look("damage.pcap", &packets, &fields) else { return };
    let (unknown, frames) = frames.split_last().unwrap();
    assert_eq!(frames[0].numbers("dccp.checksum.status"), [0]);
    for (frame, data) in frames[1..].chunks(2).zip(short) {
        assert!(frame.iter().all(|frame| frame.get("mpdccp.malformed").len() == 1), "{data:?} {frame:?}");
    }
    assert_eq!(unknown.get("mpdccp.unassigned").len(), 1);
    assert_eq!(unknown.get("mpdccp.unknown"), ["010203"]);
}
