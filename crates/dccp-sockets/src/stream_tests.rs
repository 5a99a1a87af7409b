use super::*;

#[test]
fn a_reader_is_behind_until_it_has_read_half_of_the_queue() {
    let stream = Stream::new(&Options::default().receive_queue(4), &Arc::new(Budget::new(1_000)));
    let deliver = |n| (0..n).map(|_| stream.deliver(vec![1])).collect::<Vec<_>>();
    assert_eq!(deliver(5), [false, false, false, false, true]);
    lock(&stream.state).recv();
    assert_eq!(deliver(1), [true], "more than half of the queue is unread");
    (0..3).for_each(|_| drop(lock(&stream.state).recv()));
    assert_eq!(deliver(3), [false, false, false]);
    assert_eq!(lock(&stream.state).stats().unread, 1);
}

#[test]
fn those_who_do_not_read_leave_room_for_those_who_do() {
    let budget = Arc::new(Budget::new(12 * cost(100)));
    let new = || Stream::new(&Options::default(), &budget);
    let held = |stream: &Stream| lock(&stream.state).incoming_bytes / cost(100);
    let [lazy, also] = [new(), new()];
    for stream in [&lazy, &also] {
        (0..20).for_each(|_| _ = stream.deliver(vec![1; 100]));
    }
    assert_eq!((held(&lazy), held(&also)), (6, 3), "half of the memory, and half of the rest");
    let diligent = new();
    assert!(!diligent.deliver(vec![1; 100]));
    assert!(lock(&diligent.state).recv().is_some());
    drop(lazy);
    assert_eq!(budget.used(), 3 * cost(100));
}

#[test]
fn tiny_datagrams_take_up_more_memory_than_their_data() {
    let budget = Arc::new(Budget::new(10_000));
    let stream = Stream::new(&Options::default(), &budget);
    (0..1_000).for_each(|_| _ = stream.deliver(vec![1]));
    let held = lock(&stream.state).incoming.len();
    // Half of the memory must hold each datagram's place in the queue and its allocation.
    assert!((1..5_000 / size_of::<Vec<u8>>()).contains(&held), "{held}");
    while let Some(Ok(_)) = lock(&stream.state).recv() {}
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_dropped_datagram_counts_once() {
    let stream = Stream::new(&Options::default(), &Arc::new(Budget::new(1_000)));
    stream.set_max_datagram(100);
    assert_eq!(lock(&stream.state).send(b"unsent", Delivery::default()), Some(Ok(())));
    // The session has dropped three datagrams by now, and another one until its end.
    lock(&stream.state).update(Stats { dropped: 3, ..Stats::default() });
    stream.end(Reason::Closed, 4);
    assert_eq!(lock(&stream.state).stats().dropped, 5);
}

#[test]
fn the_reason_why_a_connection_did_not_open_can_be_asked_for_again() {
    let stream = Stream::new(&Options::default(), &Arc::new(Budget::new(1_000)));
    let in_use = io::Error::from_raw_os_error(rustix::io::Errno::ADDRINUSE.raw_os_error());
    stream.fail(ConnectError::Io(crate::context::about("bind 192.0.2.1:5001", in_use)));
    let told = || {
        let error = lock(&stream.state).opening().unwrap().unwrap_err();
        (error.errno(), error.to_string())
    };
    let first = told();
    assert_eq!(first.0, rustix::io::Errno::ADDRINUSE.raw_os_error());
    assert!(first.1.starts_with("bind 192.0.2.1:5001: "), "{}", first.1);
    assert_eq!(told(), first);
}
