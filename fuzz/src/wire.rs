use dccp_wire::{MpOption, Opt, OptionBuf, Options, Packet, checksum};

/// Fuzzes the parsers of packets and options. Any bytes must yield either a result or an error. A parsed
/// packet must keep its meaning when it is written and parsed again.
pub fn wire(bytes: &[u8]) {
    let ip = [127, 0, 0, 1].into();
    checksum::verify(bytes, ip, ip);
    options(bytes);
    let Ok(packet) = Packet::parse(bytes) else { return };
    options(packet.option_bytes);
    // This stack never writes more than `MAX_OPTIONS` bytes of options, so such a packet is only parsed.
    if packet.option_bytes.len() > dccp_wire::MAX_OPTIONS {
        return;
    }
    let mut again = vec![0; packet.header.packet_len(packet.option_bytes.len(), packet.payload.len())];
    packet.header.emit(packet.option_bytes, &mut again).copy_from_slice(packet.payload);
    let read = Packet::parse(&again).expect("a written packet can be parsed");
    assert_eq!(read.header, packet.header);
    assert!(read.options().eq(packet.options()));
    assert_eq!(read.payload, packet.payload);
    checksum::fill(&mut again, ip, ip);
    assert!(checksum::verify(&again, ip, ip));
}

fn options(bytes: &[u8]) {
    let mut options = Options::new(bytes);
    let mut buf = OptionBuf::new();
    while let Some(option) = options.next() {
        options.culprit();
        let Ok(option) = option else {
            assert!(options.next().is_none());
            return;
        };
        match option {
            Opt::AckVector(_, cells) => {
                let again: Vec<u8> = dccp_wire::ack_vector::runs(cells)
                    .map(|(s, n)| dccp_wire::ack_vector::cell(s, n))
                    .collect();
                assert_eq!(again, cells);
            }
            Opt::Mp(MpOption::Key { keys, .. }) => MpOption::keys(keys).for_each(drop),
            Opt::Mp(MpOption::Confirm(inner)) => Options::new(inner).for_each(drop),
            _ => {}
        }
        buf.clear();
        assert!(buf.push(&option));
        assert_eq!(Options::new(buf.as_bytes()).next(), Some(Ok(option)));
    }
}
