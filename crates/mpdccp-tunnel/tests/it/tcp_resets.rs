//! Tests of resets while much data is on its way.

use crate::tcp::{STREAMS, bytes, world};
use crate::world::SERVER;
use mpdccp_proxy::{Command as Told, Event};

/// A host pipelines its requests and reads no answer before it has sent them all. Its server is killed.
#[test]
fn a_host_that_writes_before_it_reads_is_not_held_up_after_a_reset() {
    const BLOCK: usize = 64 << 10;
    let mut world = world(STREAMS, STREAMS);
    let [near, far] = world.open(1_000);
    // This is more than the sockets and the stream hold while nothing is read.
    (0..12).for_each(|_| world.says(SERVER, Event::Data(far, vec![7; BLOCK])));
    world.says(SERVER, Event::Reset(far));
    let mut told = world.told(0);
    assert!(bytes(&told) < 12 * BLOCK && !told.contains(&Told::Reset(near)));
    (0..12).for_each(|_| world.says(0, Event::Data(near, vec![7; BLOCK])));
    assert_eq!(world.told(0), vec![Told::Credit(near, BLOCK as u64); 12]);
    // The host gets all answers before the reset.
    for _ in 0..8 {
        world.says(0, Event::Consumed(near, 4 * BLOCK as u64));
        told.extend(world.told(0));
    }
    assert_eq!((bytes(&told), told.last()), (12 * BLOCK, Some(&Told::Reset(near))));
}
