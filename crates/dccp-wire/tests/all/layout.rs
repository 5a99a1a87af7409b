//! Compares packets and options byte by byte with the figures of the RFCs.

use dccp_wire::{Header, MpOption, Opt, OptionBuf, Options, Packet, PacketType, ResetCode, RttType, Seq};

/// Parses hexadecimal digits and ignores spaces.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[test]
fn headers() {
    use PacketType::*;
    let seq = "00 a1a2a3a4a5a6";
    let ack = "0000 b1b2b3b4b5b6";
    let table = [
        (Request, format!("c35a1389 05 73 0000 01 {seq} 4d505455")),
        (Response, format!("c35a1389 07 73 0000 03 {seq} {ack} 4d505455")),
        (Data, format!("c35a1389 04 73 0000 05 {seq}")),
        (Ack, format!("c35a1389 06 73 0000 07 {seq} {ack}")),
        (DataAck, format!("c35a1389 06 73 0000 09 {seq} {ack}")),
        (CloseReq, format!("c35a1389 06 73 0000 0b {seq} {ack}")),
        (Close, format!("c35a1389 06 73 0000 0d {seq} {ack}")),
        (Reset, format!("c35a1389 07 73 0000 0f {seq} {ack} 0d010203")),
        (Sync, format!("c35a1389 06 73 0000 11 {seq} {ack}")),
        (SyncAck, format!("c35a1389 06 73 0000 13 {seq} {ack}")),
        (Listen, format!("c35a1389 05 73 0000 15 {seq} 4d505455")),
        (Data, "c35a1389 03 73 0000 04 a4a5a6".into()),
        (Ack, "c35a1389 04 73 0000 06 a4a5a6 00 b4b5b6".into()),
        (DataAck, "c35a1389 04 73 0000 08 a4a5a6 00 b4b5b6".into()),
    ];
    for (number, (ptype, bytes)) in table.into_iter().enumerate() {
        let short = number > 10;
        let number = |long: u64| Seq::new(if short { long & 0xff_ffff } else { long });
        let (ack, service_code) = match ptype {
            Request | Listen => (false, true),
            Response => (true, true),
            Data => (false, false),
            _ => (true, false),
        };
        let header = Header {
            src_port: 50010,
            dst_port: 5001,
            ccval: 7,
            cscov: 3,
            ptype,
            short,
            seq: number(0xa1a2_a3a4_a5a6),
            ack: ack.then_some(number(0xb1b2_b3b4_b5b6)),
            service_code: service_code.then_some(u32::from_be_bytes(*b"MPTU")),
            reset: (ptype == Reset)
                .then_some(dccp_wire::Reset { code: ResetCode::AbruptMpTermination, data: [1, 2, 3] }),
        };
        let mut packet = vec![0xff; header.packet_len(0, 8)];
        header.emit(&[], &mut packet).copy_from_slice(b"12345678");
        let bytes = [hex(&bytes), b"12345678".to_vec()].concat();
        assert_eq!(packet, bytes, "{ptype:?}");
        let read = Packet::parse(&bytes).unwrap();
        assert_eq!((read.header, read.option_bytes, read.payload), (header, &[][..], &b"12345678"[..]));
    }
}

#[test]
fn options() {
    let v4 = [192, 0, 2, 1].into();
    let v6 = [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into();
    let key = [0xd0, 0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7];
    let key_list = [0, 0xd0, 0xd1, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7];
    let hmac: [u8; 20] = core::array::from_fn(|i| i as u8);
    let groups = hex("2e09 04 000000000009 2e04 09 02");
    // Sources: RFC 4340 section 5.8 and the sections on each option; RFC 9897 section 3.2.
    let table = [
        (Opt::Mandatory, "01"),
        (Opt::SlowReceiver, "02"),
        (Opt::ChangeL(1, &[2, 3]), "2005 01 0203"),
        (Opt::ConfirmL(1, &[2, 2, 3]), "2106 01 020203"),
        (Opt::ChangeR(10, &[0]), "2204 0a 00"),
        (Opt::ConfirmR(99, &[]), "2303 63"),
        (Opt::InitCookie(&[1, 2]), "2404 0102"),
        (Opt::NdpCount(0), "2503 00"),
        (Opt::NdpCount(255), "2503 ff"),
        (Opt::NdpCount(256), "2504 0100"),
        (Opt::NdpCount(0xffff_ffff_ffff), "2508 ffffffffffff"),
        (Opt::AckVector(false, &[0, 192, 3, 64, 5]), "2607 00c0034005"),
        (Opt::AckVector(true, &[0]), "2703 00"),
        (Opt::DataDropped(&[0, 160, 3, 162]), "2806 00a003a2"),
        (Opt::Timestamp(0x0102_0304), "2906 01020304"),
        (Opt::TimestampEcho(0x0102_0304, 0), "2a06 01020304"),
        (Opt::TimestampEcho(0x0102_0304, 0xffff), "2a08 01020304 ffff"),
        (Opt::TimestampEcho(0x0102_0304, 0x1_0000), "2a0a 01020304 00010000"),
        (Opt::ElapsedTime(0), "2b04 0000"),
        (Opt::ElapsedTime(0xffff), "2b04 ffff"),
        (Opt::ElapsedTime(u32::MAX), "2b06 ffffffff"),
        (Opt::DataChecksum(0xe306_9283), "2c06 839206e3"),
        (Opt::Ccid(192, &[0, 0, 0, 1]), "c006 00000001"),
        (Opt::Unknown(45, &[9]), "2d03 09"),
        (Opt::Unknown(31, &[]), "1f"),
        (Opt::Mp(MpOption::Confirm(&groups)), "2e10 00 2e0904000000000009 2e040902"),
        (
            Opt::Mp(MpOption::Join { addr_id: 7, ci: 0x0102_0304, nonce: 0x0506_0708 }),
            "2e0c 01 07 01020304 05060708",
        ),
        (Opt::Mp(MpOption::FastClose(&key)), "2e0b 02 d0d1d2d3d4d5d6d7"),
        (
            Opt::Mp(MpOption::Key { ci: 0x0102_0304, keys: &key_list }),
            "2e11 03 00 01020304 00 d0d1d2d3d4d5d6d7",
        ),
        (Opt::Mp(MpOption::Seq(Seq::new(0x0102_0304_0506))), "2e09 04 010203040506"),
        (Opt::Mp(MpOption::Hmac(&hmac)), "2e17 05 000102030405060708090a0b0c0d0e0f10111213"),
        (
            Opt::Mp(MpOption::Rtt { kind: RttType::Smooth, rtt_ms: 25, age_ms: 0x0102_0304 }),
            "2e0c 06 03 00000019 01020304",
        ),
        (
            Opt::Mp(MpOption::AddAddr { addr_id: 2, nonce: 0x0102_0304, addr: v4, port: None }),
            "2e0c 07 02 01020304 c0000201",
        ),
        (
            Opt::Mp(MpOption::AddAddr { addr_id: 2, nonce: 0x0102_0304, addr: v4, port: Some(6511) }),
            "2e0e 07 02 01020304 c0000201 196f",
        ),
        (
            Opt::Mp(MpOption::AddAddr { addr_id: 2, nonce: 0x0102_0304, addr: v6, port: None }),
            "2e18 07 02 01020304 20010db8000000000000000000000001",
        ),
        (
            Opt::Mp(MpOption::AddAddr { addr_id: 2, nonce: 0x0102_0304, addr: v6, port: Some(6511) }),
            "2e1a 07 02 01020304 20010db8000000000000000000000001 196f",
        ),
        (Opt::Mp(MpOption::RemoveAddr { addr_id: 2, nonce: 0x0102_0304 }), "2e08 08 02 01020304"),
        (Opt::Mp(MpOption::Prio(12)), "2e04 09 0c"),
        (Opt::Mp(MpOption::Close(&key)), "2e0b 0a d0d1d2d3d4d5d6d7"),
        (Opt::Mp(MpOption::Exp(&[1])), "2e04 0b 01"),
        (Opt::Mp(MpOption::Unknown(200, &[1])), "2e04 c8 01"),
    ];
    for (option, bytes) in table {
        let bytes = hex(bytes);
        let mut buf = OptionBuf::new();
        assert!(buf.push(&option));
        assert_eq!(buf.as_bytes(), bytes, "{option:?}");
        assert_eq!(Options::new(&bytes).collect::<Vec<_>>(), [Ok(option)]);
    }
    // RFC 4340 section 7.7: NDP Count has at most six bytes.
    let mut buf = OptionBuf::new();
    assert!(buf.push(&Opt::NdpCount(1 << 48)));
    assert_eq!(buf.as_bytes(), hex("2508 ffffffffffff"));
    // The high half of MP_PRIO's byte is reserved.
    assert_eq!(Options::new(&hex("2e04 09 fc")).next(), Some(Ok(Opt::Mp(MpOption::Prio(12)))));
}
