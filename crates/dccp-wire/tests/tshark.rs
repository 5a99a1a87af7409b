//! What we write, tshark reads with the same values: RFC 4340 fields by Wireshark's own dissector (native) or our Lua
//! one (in UDP), Multipath DCCP fields by our Lua one.

mod common;

use common::ip::{Carrier, wrap};
use common::tshark::{Frame, available, frames, scratch};
use core::net::IpAddr;
use dccp_wire::{
    DCCP_UDP_PORT, Header, KeyType, MpOption, Opt, OptionBuf, Options, PacketType, Reset, ResetCode, RttType,
    Seq,
};

/// What is to be read: our name of a field, its name in tshark native and in UDP ("": not shown there).
const FIELDS: &[(&str, &str, &str)] = &[
    ("srcport", "dccp.srcport", "dccpudp.srcport"),
    ("dstport", "dccp.dstport", "dccpudp.dstport"),
    ("data_offset", "dccp.data_offset", "dccpudp.data_offset"),
    ("ccval", "dccp.ccval", "dccpudp.ccval"),
    ("cscov", "dccp.cscov", "dccpudp.cscov"),
    ("type", "dccp.type", "dccpudp.type"),
    ("x", "dccp.x", "dccpudp.x"),
    ("seq", "dccp.seq_raw", "dccpudp.seq"),
    ("ack", "dccp.ack_raw", "dccpudp.ack"),
    ("service_code", "dccp.service_code", "dccpudp.service_code"),
    ("reset_code", "dccp.reset_code", "dccpudp.reset_code"),
    ("reset_data", "", "dccpudp.reset_data"),
    ("reset_data1", "dccp.data1", ""),
    ("reset_data2", "dccp.data2", ""),
    ("reset_data3", "dccp.data3", ""),
    ("option_type", "dccp.option_type", "dccpudp.option_type"),
    ("feature", "dccp.feature_number", "dccpudp.feature_number"),
    ("feature_value", "", "dccpudp.feature_value"),
    ("init_cookie", "dccp.init_cookie", "dccpudp.init_cookie"),
    ("ndp_count", "dccp.ndp_count", "dccpudp.ndp_count"),
    ("ack_vector", "", "dccpudp.ack_vector"),
    ("ack_vector_0", "dccp.ack_vector.nonce_0", ""),
    ("ack_vector_1", "dccp.ack_vector.nonce_1", ""),
    ("data_dropped", "dccp.data_dropped", "dccpudp.data_dropped"),
    ("timestamp", "dccp.timestamp", "dccpudp.timestamp"),
    ("timestamp_echo", "dccp.timestamp_echo", "dccpudp.timestamp_echo"),
    ("elapsed_time", "dccp.elapsed_time", "dccpudp.elapsed_time"),
    ("data_checksum", "dccp.checksum_data", "dccpudp.checksum_data"),
    ("option_data", "", "dccpudp.option_data"),
    ("data", "data.data", "dccpudp.data"),
    ("mp_length", "mpdccp.length", "mpdccp.length"),
    ("mp_subtype", "mpdccp.subtype", "mpdccp.subtype"),
    ("mp_confirm", "mpdccp.confirm", "mpdccp.confirm"),
    ("mp_join_addr_id", "mpdccp.join.addr_id", "mpdccp.join.addr_id"),
    ("mp_join_ci", "mpdccp.join.ci", "mpdccp.join.ci"),
    ("mp_join_nonce", "mpdccp.join.nonce", "mpdccp.join.nonce"),
    ("mp_fast_close", "mpdccp.fast_close.key", "mpdccp.fast_close.key"),
    ("mp_key_reserved", "mpdccp.key.reserved", "mpdccp.key.reserved"),
    ("mp_key_ci", "mpdccp.key.ci", "mpdccp.key.ci"),
    ("mp_key_type", "mpdccp.key.type", "mpdccp.key.type"),
    ("mp_key_data", "mpdccp.key.data", "mpdccp.key.data"),
    ("mp_seq", "mpdccp.seq", "mpdccp.seq"),
    ("mp_hmac", "mpdccp.hmac", "mpdccp.hmac"),
    ("mp_rtt_type", "mpdccp.rtt.type", "mpdccp.rtt.type"),
    ("mp_rtt", "mpdccp.rtt.rtt", "mpdccp.rtt.rtt"),
    ("mp_rtt_age", "mpdccp.rtt.age", "mpdccp.rtt.age"),
    ("mp_add_id", "mpdccp.addaddr.addr_id", "mpdccp.addaddr.addr_id"),
    ("mp_add_nonce", "mpdccp.addaddr.nonce", "mpdccp.addaddr.nonce"),
    ("mp_add_ipv4", "mpdccp.addaddr.ipv4", "mpdccp.addaddr.ipv4"),
    ("mp_add_ipv6", "mpdccp.addaddr.ipv6", "mpdccp.addaddr.ipv6"),
    ("mp_add_port", "mpdccp.addaddr.port", "mpdccp.addaddr.port"),
    ("mp_remove_id", "mpdccp.removeaddr.addr_id", "mpdccp.removeaddr.addr_id"),
    ("mp_remove_nonce", "mpdccp.removeaddr.nonce", "mpdccp.removeaddr.nonce"),
    ("mp_prio", "mpdccp.prio", "mpdccp.prio"),
    ("mp_close", "mpdccp.close.key", "mpdccp.close.key"),
    ("mp_exp", "mpdccp.exp", "mpdccp.exp"),
    ("mp_unknown", "mpdccp.unknown", "mpdccp.unknown"),
    ("mp_capable", "mpdccp.capable", "mpdccp.capable"),
    ("mp_version", "mpdccp.capable.version", "mpdccp.capable.version"),
    ("mp_reset_code", "mpdccp.reset_code", "mpdccp.reset_code"),
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// (our field name, value) in the order of the packet.
#[derive(Default)]
struct Meaning(Vec<(&'static str, String)>);

impl Meaning {
    fn is(&mut self, field: &'static str, value: impl ToString) {
        self.0.push((field, value.to_string()));
    }

    /// tshark has no item for a value without bytes.
    fn bytes(&mut self, field: &'static str, value: &[u8]) {
        if !value.is_empty() {
            self.is(field, hex(value));
        }
    }

    fn header(&mut self, header: &Header, options: usize) {
        self.is("srcport", header.src_port);
        self.is("dstport", header.dst_port);
        self.is("data_offset", header.packet_len(options, 0) / 4);
        self.is("ccval", header.ccval);
        self.is("cscov", header.cscov);
        self.is("type", header.ptype.number());
        self.is("x", u8::from(!header.short));
        self.is("seq", header.seq.value());
        header.ack.iter().for_each(|ack| self.is("ack", ack.value()));
        header.service_code.iter().for_each(|code| self.is("service_code", code));
        if let Some(Reset { code, data }) = header.reset {
            self.is("reset_code", code.number());
            self.bytes("reset_data", &data);
            self.is("reset_data1", data[0]);
            self.is("reset_data2", data[1]);
            self.is("reset_data3", data[2]);
            if code == ResetCode::AbruptMpTermination {
                self.is("mp_reset_code", 13);
            }
        }
    }

    fn feature(&mut self, kind: u8, feature: u8, value: &[u8]) {
        self.is("option_type", kind);
        self.is("feature", feature);
        self.bytes("feature_value", value);
        if feature == dccp_wire::feature::MULTIPATH_CAPABLE {
            self.is("mp_capable", kind);
            value.iter().for_each(|version| self.is("mp_version", version >> 4));
        }
    }

    fn option(&mut self, option: &Opt<'_>) {
        match *option {
            Opt::Mandatory => self.is("option_type", 1),
            Opt::SlowReceiver => self.is("option_type", 2),
            Opt::ChangeL(feature, value) => self.feature(32, feature, value),
            Opt::ConfirmL(feature, value) => self.feature(33, feature, value),
            Opt::ChangeR(feature, value) => self.feature(34, feature, value),
            Opt::ConfirmR(feature, value) => self.feature(35, feature, value),
            Opt::InitCookie(cookie) => {
                self.is("option_type", 36);
                self.bytes("init_cookie", cookie);
            }
            Opt::NdpCount(count) => {
                self.is("option_type", 37);
                self.is("ndp_count", count);
            }
            Opt::AckVector(nonce, cells) => {
                self.is("option_type", 38 + u8::from(nonce));
                self.bytes("ack_vector", cells);
                self.bytes(if nonce { "ack_vector_1" } else { "ack_vector_0" }, cells);
            }
            Opt::DataDropped(blocks) => {
                self.is("option_type", 40);
                self.bytes("data_dropped", blocks);
            }
            Opt::Timestamp(time) => {
                self.is("option_type", 41);
                self.is("timestamp", time);
            }
            Opt::TimestampEcho(echo, elapsed) => {
                self.is("option_type", 42);
                self.is("timestamp_echo", echo);
                if elapsed != 0 {
                    self.is("elapsed_time", elapsed);
                }
            }
            Opt::ElapsedTime(elapsed) => {
                self.is("option_type", 43);
                self.is("elapsed_time", elapsed);
            }
            Opt::DataChecksum(crc) => {
                self.is("option_type", 44);
                // tshark shows the bytes in network order; the low byte of the CRC goes first, as in SCTP.
                self.is("data_checksum", crc.swap_bytes());
            }
            Opt::Mp(ref mp) => {
                self.is("option_type", 46);
                self.mp(mp);
            }
            Opt::Ccid(kind, data) | Opt::Unknown(kind, data) | Opt::Invalid(kind, data) => {
                self.is("option_type", kind);
                self.bytes("option_data", data);
            }
        }
    }

    fn mp(&mut self, mp: &MpOption<'_>) {
        // Lengths: RFC 9897 section 3.2.
        let (subtype, len) = match *mp {
            MpOption::Confirm(groups) => (0, 3 + groups.len()),
            MpOption::Join { .. } => (1, 12),
            MpOption::FastClose(key) => (2, 3 + key.len()),
            MpOption::Key { keys, .. } => (3, 8 + keys.len()),
            MpOption::Seq(_) => (4, 9),
            MpOption::Hmac(_) => (5, 23),
            MpOption::Rtt { .. } => (6, 12),
            MpOption::AddAddr { addr, port, .. } => {
                (7, if addr.is_ipv4() { 12 } else { 24 } + if port.is_some() { 2 } else { 0 })
            }
            MpOption::RemoveAddr { .. } => (8, 8),
            MpOption::Prio(_) => (9, 4),
            MpOption::Close(key) => (10, 3 + key.len()),
            MpOption::Exp(data) => (11, 3 + data.len()),
            MpOption::Unknown(subtype, data) => (subtype, 3 + data.len()),
        };
        self.is("mp_length", len);
        self.is("mp_subtype", subtype);
        match *mp {
            MpOption::Confirm(groups) => {
                self.bytes("mp_confirm", groups);
                for option in Options::new(groups) {
                    match option {
                        Ok(Opt::Mp(mp)) => self.mp(&mp),
                        other => panic!("{other:?} in a confirmation"),
                    }
                }
            }
            MpOption::Join { addr_id, ci, nonce } => {
                self.is("mp_join_addr_id", addr_id);
                self.is("mp_join_ci", ci);
                self.is("mp_join_nonce", nonce);
            }
            MpOption::FastClose(key) => self.bytes("mp_fast_close", key),
            MpOption::Key { ci, keys } => {
                self.is("mp_key_reserved", 0);
                self.is("mp_key_ci", ci);
                for (kind, key) in MpOption::keys(keys) {
                    self.is("mp_key_type", kind.number());
                    self.bytes("mp_key_data", key);
                }
            }
            MpOption::Seq(seq) => self.is("mp_seq", seq.value()),
            MpOption::Hmac(hmac) => self.bytes("mp_hmac", hmac),
            MpOption::Rtt { kind, rtt_ms, age_ms } => {
                let kinds = [RttType::Raw, RttType::Min, RttType::Max, RttType::Smooth];
                self.is("mp_rtt_type", kinds.iter().position(|&k| k == kind).unwrap());
                self.is("mp_rtt", rtt_ms);
                self.is("mp_rtt_age", age_ms);
            }
            MpOption::AddAddr { addr_id, nonce, addr, port } => {
                self.is("mp_add_id", addr_id);
                self.is("mp_add_nonce", nonce);
                self.is(if addr.is_ipv4() { "mp_add_ipv4" } else { "mp_add_ipv6" }, addr);
                port.iter().for_each(|port| self.is("mp_add_port", port));
            }
            MpOption::RemoveAddr { addr_id, nonce } => {
                self.is("mp_remove_id", addr_id);
                self.is("mp_remove_nonce", nonce);
            }
            MpOption::Prio(prio) => self.is("mp_prio", prio),
            MpOption::Close(key) => self.bytes("mp_close", key),
            MpOption::Exp(data) => self.bytes("mp_exp", data),
            MpOption::Unknown(_, data) => self.bytes("mp_unknown", data),
        }
    }
}

fn header(ptype: PacketType) -> Header {
    Header {
        src_port: 0xc35a,
        dst_port: 5001,
        ccval: 0,
        cscov: 0,
        ptype,
        short: false,
        seq: Seq::new(0xa1b2_c3d4_e5f6),
        ack: ptype.has_ack().then_some(Seq::new(0x0102_0304_0506)),
        service_code: ptype.has_service_code().then_some(0x4d50_5455),
        reset: (ptype == PacketType::Reset).then_some(Reset { code: ResetCode::Closed, data: [0; 3] }),
    }
}

struct Sample {
    header: Header,
    options: Vec<Opt<'static>>,
    /// Bytes of padding ahead of the options, as the Linux kernel puts it.
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

/// Every type, every option, and what may be combined.
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

/// The values of our field `name` in a frame; padding is no value.
fn read(frame: &Frame, native: bool, field: &(&str, &str, &str)) -> Vec<String> {
    let mut values = frame.get(if native { field.1 } else { field.2 });
    if native && field.0 == "seq" && values.is_empty() {
        // Short numbers have no raw field in Wireshark 4.0.
        values = frame.get("dccp.seq");
    }
    if field.0 == "option_type" {
        values.retain(|kind| kind != "0");
    }
    values
}

fn compare(carrier: Carrier, v6: bool, arguments: &[&str]) {
    let name = format!("{carrier:?}-{}.pcap", if v6 { 6 } else { 4 });
    if !available(&name) {
        return;
    }
    let native = carrier == Carrier::Native;
    let (src, dst) = addresses(v6);
    let samples = samples();
    let packets: Vec<_> = samples.iter().map(|sample| wrap(carrier, encode(sample).0, src, dst)).collect();
    let capture = scratch(&name);
    common::pcap::write(&capture, &packets);

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
    compare(Carrier::Native, false, &[]);
}

#[test]
fn native_ipv6() {
    compare(Carrier::Native, true, &[]);
}

#[test]
fn udp_ipv4() {
    compare(Carrier::Udp(DCCP_UDP_PORT), false, &[]);
}

#[test]
fn udp_ipv6() {
    compare(Carrier::Udp(DCCP_UDP_PORT), true, &[]);
}

#[test]
fn udp_on_another_port_told() {
    compare(Carrier::Udp(7000), false, &["-d", "udp.port==7000,dccpudp"]);
}

/// Frames of `packets`, written under `name`.
fn look(name: &str, packets: &[Vec<u8>], fields: &[&str]) -> Option<Vec<Frame>> {
    if !available(name) {
        return None;
    }
    let capture = scratch(name);
    common::pcap::write(&capture, packets);
    let frames = frames(&capture, fields, &[]);
    assert_eq!(frames.len(), packets.len());
    Some(frames)
}

#[test]
fn udp_on_another_port_recognised() {
    // Port 40000 has no other claim. Short numbers and partial coverage look too much like anything else.
    let (src, dst) = addresses(false);
    let samples: Vec<_> = samples().into_iter().filter(|s| !s.header.short && s.header.cscov == 0).collect();
    let mut packets: Vec<_> =
        samples.iter().map(|s| wrap(Carrier::Udp(40000), encode(s).0, src, dst)).collect();
    // Not DCCP: text, zeros, random bytes.
    let noise: Vec<u8> = (0..200u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for other in [&b"GET / HTTP/1.1 and so on, long enough for a header"[..], &[0; 64], &noise] {
        packets.push(wrap(Carrier::Udp(40000), other.to_vec(), src, dst));
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
    // The checks above mean something only if tshark finds fault where there is one.
    let (src, dst) = addresses(false);
    let with = |options| Sample { header: header(PacketType::Ack), options, padding: 0, payload: b"" };
    let mut damaged = wrap(Carrier::Native, encode(&with(vec![])).0, src, dst);
    *damaged.last_mut().unwrap() ^= 1;
    let mut packets = vec![damaged];
    // Lengths that the subtypes cannot have; the reference kernel's older draft had some of these.
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
        packets.push(wrap(Carrier::Native, encode(&with(vec![Opt::Invalid(46, data)])).0, src, dst));
        packets.push(wrap(
            Carrier::Udp(DCCP_UDP_PORT),
            encode(&with(vec![Opt::Invalid(46, data)])).0,
            src,
            dst,
        ));
    }
    let mp_unknown = with(vec![Opt::Mp(MpOption::Unknown(12, &[1, 2, 3]))]);
    packets.push(wrap(Carrier::Native, encode(&mp_unknown).0, src, dst));
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
