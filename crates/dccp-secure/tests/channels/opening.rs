//! Records that another thread opens.

use super::*;
use dccp_secure::{OpenedRecord, Reason};

/// Opens records, in order, before the channels handle any of them.
fn open(world: &mut World, records: &mut [Vec<u8>]) -> Vec<OpenedRecord> {
    let openings: Vec<_> =
        records.iter().map(|record| world.server.prepare(world.now, record).unwrap()).collect();
    openings.into_iter().zip(records).map(|(opening, record)| opening.open(record)).collect()
}

#[test]
fn records_opened_elsewhere_are_handled_as_others() {
    let mut world = World::ready();
    let mut records = vec![world.seal(b"one").unwrap(), world.seal(b"three").unwrap()];
    let opened = open(&mut world, &mut records);
    world.from = address(77);
    for ((opened, record), text) in opened.into_iter().zip(&mut records).zip([&b"one"[..], b"three"]) {
        assert_eq!(
            Ok(world.server.handle_opened(world.now, &world.from, record, opened)),
            packet(0, text.len())
        );
        assert_eq!(record[HEADER..HEADER + text.len()], *text);
    }
    assert_eq!(world.server.address(ChannelId(0)), Some(address(77)), "the peer moved");
}

#[test]
fn copies_and_forged_records_that_were_opened_elsewhere_have_no_effect() {
    let mut world = World::ready();
    let record = world.seal(b"once").unwrap();
    let mut forged = record.clone();
    forged[HEADER] ^= 1;
    let mut records = vec![forged, record.clone(), record.clone()];
    let opened = open(&mut world, &mut records);
    let handled: Vec<_> = opened
        .into_iter()
        .zip(&mut records)
        .map(|(opened, record)| world.server.handle_opened(world.now, &world.from, record, opened))
        .collect();
    let expected = [Input::Dropped(Reason::Forged), packet(0, 4).unwrap(), Input::Dropped(Reason::Replayed)];
    assert_eq!(handled, expected);
    assert!(world.server.prepare(world.now, &record).is_none(), "a known copy is not opened at all");
}

#[test]
fn the_result_for_one_record_is_none_for_another() {
    let mut world = World::ready();
    let mut records = vec![world.seal(b"this").unwrap(), world.seal(b"that").unwrap()];
    let opened = open(&mut world, &mut records).swap_remove(0);
    let other = world.server.handle_opened(world.now, &world.from, &mut records[1], opened);
    assert_eq!(other, Input::Dropped(Reason::Forged));
}

#[test]
fn a_key_may_expire_while_a_record_is_opened() {
    let mut world = World::ready();
    let mut records = vec![world.seal(b"late").unwrap()];
    let opened = open(&mut world, &mut records).remove(0);
    world.wait(Duration::from_secs(181));
    let late = world.server.handle_opened(world.now, &world.from, &mut records[0], opened);
    assert_eq!(late, Input::Dropped(Reason::UnknownIndex));
}

#[test]
fn only_records_with_a_key_can_be_opened_elsewhere() {
    let mut world = World::new();
    world.send(b"first").unwrap_err();
    let (_, initiation) = world.client.poll_transmit().unwrap();
    assert!(world.server.prepare(world.now, &initiation).is_none());
    let mut world = World::ready();
    let mut record = world.seal(b"x").unwrap();
    world.now += Duration::from_secs(180);
    assert!(world.server.prepare(world.now, &record).is_none(), "the key expired");
    record[4..8].fill(0xee);
    assert!(world.server.prepare(world.now, &record).is_none(), "an unknown index");
}
