use super::*;
use proptest::prelude::*;
use tun_rs::gso_split;

/// Describes a packet to build.
#[derive(Clone, Debug)]
struct Spec {
    v6: bool,
    tcp: bool,
    port: u16,
    size: usize,
    flags: u8,
    ttl: u8,
    /// Number of sequence numbers that the flow skips before this packet.
    gap: u32,
    fragment: bool,
    /// Whether the checksum is wrong (TCP) or absent (UDP).
    damaged: bool,
    bare: bool,
}

fn plain(v6: bool, tcp: bool, size: usize) -> Spec {
    let flags = if tcp { ACK } else { 0 };
    Spec { v6, tcp, port: 1, size, flags, ttl: 64, gap: 0, fragment: false, damaged: false, bare: false }
}

fn build(spec: &Spec, sequence: u32) -> Vec<u8> {
    let transport = if spec.tcp { 32 } else { 8 };
    let mut packet = vec![0; if spec.v6 { 40 } else { 20 }];
    let (ip, carried) = (packet.len(), transport + spec.size);
    if spec.v6 {
        packet[0] = 0x60;
        packet[4..6].copy_from_slice(&(carried as u16).to_be_bytes());
        (packet[6], packet[7]) = (if spec.tcp { TCP } else { UDP }, spec.ttl);
        packet[8..40].fill(spec.port as u8);
    } else {
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&((ip + carried) as u16).to_be_bytes());
        packet[6] = if spec.fragment { 0x20 } else { 0x40 };
        (packet[8], packet[9]) = (spec.ttl, if spec.tcp { TCP } else { UDP });
        packet[12..20].fill(spec.port as u8);
        let sum = !checksum(&packet, 0);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    let mut rest = vec![0; transport];
    rest[..2].copy_from_slice(&spec.port.to_be_bytes());
    rest[3] = 80;
    if spec.tcp {
        rest[4..8].copy_from_slice(&sequence.to_be_bytes());
        (rest[12], rest[13], rest[20]) = (8 << 4, spec.flags, 1);
    } else {
        rest[4..6].copy_from_slice(&(carried as u16).to_be_bytes());
    }
    rest.extend((0..spec.size).map(|i| (i as u32).wrapping_add(sequence) as u8));
    let at = if spec.tcp { 16 } else { 6 };
    let pseudo = checksum_no_fold(
        if spec.v6 { &packet[8..40] } else { &packet[12..20] },
        u64::from(if spec.tcp { TCP } else { UDP }) + carried as u64,
    );
    let sum = match (!checksum(&rest, pseudo)).wrapping_add(u16::from(spec.damaged)) {
        // A checksum of 0 means no checksum in UDP (RFC 768), but is an ordinary checksum in TCP.
        0 if !spec.tcp => u16::MAX,
        sum => sum,
    };
    let bare = spec.bare && !spec.tcp && !spec.v6;
    rest[at..at + 2].copy_from_slice(&(if bare { 0 } else { sum }).to_be_bytes());
    packet.extend(rest);
    packet
}

fn build_all(specs: &[Spec]) -> Vec<Vec<u8>> {
    let mut sequence = std::collections::HashMap::new();
    let mut build = |spec: &Spec| {
        let next = sequence.entry((spec.v6, spec.tcp, spec.port)).or_insert(u32::MAX - 3_000);
        *next = next.wrapping_add(spec.gap);
        let packet = build(spec, *next);
        *next = next.wrapping_add(spec.size as u32);
        packet
    };
    specs.iter().map(&mut build).collect()
}

/// Writes a burst. Returns the packets, split as the kernel splits them, and the number of writes.
fn written(burst: &[Vec<u8>], udp: bool) -> (Vec<Vec<u8>>, usize) {
    let mut coalescer = Coalescer::default();
    coalescer.sort(burst, udp);
    let mut out = Vec::new();
    for group in coalescer.all() {
        if group.packets() == 1 {
            out.extend(coalescer.members(group).map(|i| burst[i].clone()));
            continue;
        }
        let header = group.header(burst);
        let told = VirtioNetHdr::decode(header.as_bytes()).unwrap();
        let mut whole = header.as_bytes()[VIRTIO_NET_HDR_LEN..].to_vec();
        coalescer.members(group).for_each(|i| whole.extend_from_slice(&burst[i][group.headers()..]));
        let length = if whole[0] == 0x45 { [whole[2], whole[3]] } else { [whole[4], whole[5]] };
        let length = usize::from(u16::from_be_bytes(length)) + if whole[0] == 0x45 { 0 } else { 40 };
        assert_eq!(length, whole.len());
        if whole[0] == 0x45 {
            assert_eq!(checksum(&whole[..20], 0), u16::MAX, "the header's checksum");
        }
        let (mut packets, mut sizes) = (vec![vec![0; 2_048]; MOST_PARTS], [0; MOST_PARTS]);
        let v6 = whole[0] >> 4 == 6;
        let n = gso_split(&mut whole, told, &mut packets, &mut sizes, 0, v6).unwrap();
        assert_eq!(n, group.packets());
        out.extend(packets.into_iter().zip(sizes).take(n).map(|(packet, size)| packet[..size].to_vec()));
    }
    (out, coalescer.all().len())
}

/// Returns the packets of one flow. Clears the IPv4 identification, because the kernel increments it.
fn flow(packets: &[Vec<u8>], of: &Spec) -> Vec<Vec<u8>> {
    let ip = if of.v6 { 40 } else { 20 };
    let is = |packet: &&Vec<u8>| {
        packet.len() > ip
            && (packet[0] == 0x60) == of.v6
            && (packet[if of.v6 { 6 } else { 9 }] == TCP) == of.tcp
            && packet[ip..ip + 2] == of.port.to_be_bytes()
    };
    let neutral = |packet: &Vec<u8>| {
        let mut packet = packet.clone();
        if !of.v6 {
            packet[4..6].fill(0);
            packet[10..12].fill(0);
        }
        packet
    };
    packets.iter().filter(is).map(neutral).collect()
}

fn specs() -> impl Strategy<Value = Vec<Spec>> {
    let flags = prop_oneof![12 => Just(ACK), 2 => Just(ACK | PSH), 1 => Just(ACK | 1), 1 => Just(2u8)];
    let size = prop_oneof![8 => Just(1_000usize), 2 => 1..1_000usize, 1 => Just(0usize)];
    let rare = || prop::bool::weighted(0.04);
    let spec = (any::<bool>(), any::<bool>(), 1..3u16, size, flags, 0..40u8, rare(), rare(), rare(), rare());
    let spec = spec.prop_map(|(v6, tcp, port, size, flags, ttl, gap, fragment, damaged, bare)| Spec {
        v6,
        tcp,
        port,
        size,
        flags,
        ttl: if ttl == 0 { 63 } else { 64 },
        gap: if gap { 500 } else { 0 },
        fragment: fragment && !v6,
        damaged,
        bare,
    });
    prop::collection::vec(spec, 0..128)
}

proptest! {
    #[test]
    fn the_kernel_gets_each_flow_as_it_came(specs in specs(), udp: bool) {
        let burst = build_all(&specs);
        let (out, _) = written(&burst, udp);
        prop_assert_eq!(out.len(), burst.len());
        for spec in &specs {
            prop_assert_eq!(flow(&out, spec), flow(&burst, spec));
        }
    }

    #[test]
    fn any_bytes_are_written_as_they_are_or_coalesced(burst in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..90), 0..20)) {
        let (mut out, _) = written(&burst, true);
        let mut burst = burst;
        burst.sort();
        out.sort();
        prop_assert_eq!(out, burst);
    }
}

#[test]
fn a_run_of_a_flow_is_one_packet() {
    for (v6, tcp) in [(false, true), (true, true), (false, false), (true, false)] {
        let mut specs = vec![plain(v6, tcp, 1_000); 20];
        specs[19].size = 30;
        let other = Spec { port: 2, ..plain(v6, tcp, 1_000) };
        let mixed: Vec<Spec> = specs.iter().flat_map(|spec| [spec.clone(), other.clone()]).collect();
        assert_eq!(written(&build_all(&specs), true).1, 1, "IPv6: {v6}, TCP: {tcp}");
        assert_eq!(written(&build_all(&mixed), true).1, 2, "two alternating flows, IPv6: {v6}, TCP: {tcp}");
    }
}

/// Checks packets that must not be coalesced. In each case, the second packet follows an ordinary one.
#[test]
fn unlike_neighbours_stay_apart() {
    for (v6, tcp) in [(false, true), (true, true), (false, false), (true, false)] {
        let first = plain(v6, tcp, 1_000);
        let apart = |what: &str, second: Spec| {
            assert_eq!(
                written(&build_all(&[first.clone(), second]), true).1,
                2,
                "{what}, IPv6: {v6}, TCP: {tcp}"
            );
        };
        apart("a larger packet", Spec { size: 1_001, ..first.clone() });
        apart("another TTL", Spec { ttl: 63, ..first.clone() });
        apart("a wrong checksum", Spec { damaged: true, ..first.clone() });
        apart("no payload", Spec { size: 0, ..first.clone() });
        let behind_damaged = [Spec { damaged: true, ..first.clone() }, first.clone()];
        assert_eq!(
            written(&build_all(&behind_damaged), true).1,
            2,
            "after a packet with a wrong checksum, IPv6: {v6}, TCP: {tcp}"
        );
        let behind_shorter =
            [first.clone(), Spec { size: 10, ..first.clone() }, Spec { size: 10, ..first.clone() }];
        assert_eq!(
            written(&build_all(&behind_shorter), true).1,
            2,
            "after a shorter packet, IPv6: {v6}, TCP: {tcp}"
        );
        if tcp {
            apart("a gap", Spec { gap: 1, ..first.clone() });
            apart("FIN", Spec { flags: ACK | 1, ..first.clone() });
            let pushed = Spec { flags: ACK | PSH, ..first.clone() };
            assert_eq!(written(&build_all(&[first.clone(), pushed.clone()]), true).1, 1, "PSH at the end");
            assert_eq!(written(&build_all(&[pushed, first.clone()]), true).1, 2, "after PSH");
        } else {
            assert_eq!(written(&build_all(&vec![first.clone(); 2]), false).1, 2, "a kernel without USO");
            let bare = Spec { bare: true, ..first.clone() };
            assert_eq!(written(&build_all(&vec![bare; 2]), true).1, if v6 { 1 } else { 2 }, "no checksum");
        }
        if !v6 {
            let fragment = Spec { fragment: true, ..first.clone() };
            let between = [first.clone(), fragment.clone(), first.clone()];
            assert_eq!(written(&build_all(&between), true).1, 3, "a fragment between two packets");
            assert_eq!(written(&build_all(&vec![fragment; 2]), true).1, 2, "fragments");
        }
        let mut trailing = build_all(&vec![first.clone(); 2]);
        trailing.iter_mut().for_each(|packet| packet[if v6 { 5 } else { 3 }] -= 1);
        assert_eq!(written(&trailing, true).1, 2, "bytes after the end of the IP packet");
    }
}

#[test]
fn a_coalesced_packet_is_no_larger_than_one_may_be() {
    for (tcp, size, packets) in [(true, 1_400, 47), (true, 10, 65), (false, 10, 65)] {
        let burst = build_all(&vec![plain(true, tcp, size); packets]);
        assert_eq!(written(&burst, true).1, 2, "{size}");
        assert_eq!(written(&burst[1..], true).1, 1, "{size}");
    }
}
