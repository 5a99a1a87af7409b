//! Any bytes parse or give an error, and what parsed is written back to the same meaning.
//! Run with `cargo +nightly fuzz run packet`.
#![no_main]

use dccp_wire::{Packet, checksum};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let ip = [127, 0, 0, 1].into();
    checksum::verify(bytes, ip, ip);
    let Ok(packet) = Packet::parse(bytes) else { return };
    // Longer than any option area we write; only reading must cope with it.
    if packet.option_bytes.len() > dccp_wire::MAX_OPTIONS {
        return;
    }
    let mut again = vec![0; packet.header.packet_len(packet.option_bytes.len(), packet.payload.len())];
    packet.header.emit(packet.option_bytes, &mut again).copy_from_slice(packet.payload);
    let read = Packet::parse(&again).expect("written by us");
    assert_eq!(read.header, packet.header);
    assert_eq!((read.option_bytes, read.payload), (packet.option_bytes, packet.payload));
    checksum::fill(&mut again, ip, ip);
    assert!(checksum::verify(&again, ip, ip));
});
