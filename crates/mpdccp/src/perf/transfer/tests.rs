use super::*;
use dccp_net::Driver;
use mpdccp_proto::{Endpoint, Reason};
use mpdccp_units::Rate;
use std::{fs, io};

const SESSION: SessionId = SessionId(1);

fn at(ms: u64) -> Time {
    Time::from_millis(1000 + ms)
}

/// Runs a test with sockets and timers but without a peer, so that nobody receives the packets.
fn alone(test: impl FnOnce(&mut Core)) {
    let driver = Driver::new(Endpoint::new([0; 32]), |core| {
        test(core);
        Err::<crate::perf::app::PerfApp, io::Error>(io::Error::other("the test is over"))
    });
    assert!(driver.is_err());
}

impl Transfer {
    fn server() -> Transfer {
        Transfer::new(Mode::Obey, None, ClockId::here(), at(0))
    }

    fn storing(file: &str) -> Transfer {
        Transfer::new(Mode::Obey, Some(file.into()), ClockId::here(), at(0))
    }

    fn hears(&mut self, core: &mut Core, limits: &Limits, control: Control) {
        self.on_message(core, at(0), SESSION, (64, limits), control.write());
    }

    fn gets(&mut self, core: &mut Core, len: usize) {
        let message = message::write(0, len, ClockId::here(), at(0));
        self.on_message(core, at(0), SESSION, (64, &Limits::default()), message);
    }

    fn begun(core: &mut Core, mut transfer: Transfer, test: Test) -> Transfer {
        transfer.hears(core, &Limits::default(), hello(test));
        assert!(transfer.has_begun());
        transfer
    }
}

fn hello(test: Test) -> Control {
    Control::Hello { version: VERSION, test }
}

fn upload() -> Test {
    Test { up: true, size: 1200, ..Test::default() }
}

/// Returns a client that has received everything and is requesting the server's output.
fn fetching(core: &mut Core) -> Transfer {
    let test = Test { down: true, size: 1200, server_output: true, ..Test::default() };
    let mut client = Transfer::new(Mode::Ask(test), None, ClockId::here(), at(0));
    client.hears(core, &Limits::default(), Control::Ready);
    client.hears(core, &Limits::default(), Control::Done { sent: None, cpu: None });
    assert_eq!(client.stage, Stage::Fetching);
    client
}

fn text(from: usize, total: usize, text: &str) -> Control {
    Control::Text { from, total, text: text.into() }
}

#[test]
fn messages_of_all_directions_count_for_the_limits() {
    alone(|core| {
        let mut receiver = Transfer::begun(core, Transfer::server(), upload());
        receiver.gets(core, 1200);
        assert_eq!(receiver.usage().bytes, 1200);
        let test = Test { echo: true, ..upload() };
        let mut echo = Transfer::begun(core, Transfer::server(), test);
        echo.gets(core, 1200);
        assert_eq!(echo.usage().bytes, 2400);
        let test = Test { up: false, down: true, rate_bps: Some(9_600_000), ..upload() };
        let mut sender = Transfer::begun(core, Transfer::server(), test);
        assert!(sender.fill(core, at(10), SESSION, 64));
        // The sender creates one message per millisecond.
        assert_eq!(sender.usage().bytes, 11 * 1200);
    });
}

#[test]
fn the_time_of_a_receiver_begins_with_the_first_message() {
    alone(|core| {
        let mut server = Transfer::begun(core, Transfer::server(), upload());
        assert!(server.lap(core, at(100), SESSION).is_none());
        for ms in [200, 250] {
            let message = message::write(0, 1200, ClockId::here(), at(ms));
            server.on_message(core, at(ms), SESSION, (64, &Limits::default()), message);
        }
        let lap = server.lap(core, at(300), SESSION).unwrap();
        assert_eq!((lap.from, lap.to), (Duration::ZERO, Duration::from_millis(100)));
    });
}

#[test]
fn an_interval_is_omitted_even_if_its_report_is_late() {
    alone(|core| {
        let test = Test { omit_ms: 1000, ..upload() };
        let mut server = Transfer::begun(core, Transfer::server(), test);
        server.gets(core, 1200);
        let mut omitted = |ms| server.lap(core, at(ms), SESSION).unwrap().omitted;
        assert_eq!([1001, 2001].map(&mut omitted), [true, false]);
        let mut server = Transfer::begun(core, Transfer::server(), upload());
        server.gets(core, 1200);
        assert!(!server.lap(core, at(0), SESSION).unwrap().omitted);
    });
}

#[test]
fn omitted_messages_do_not_count_for_the_number_to_send() {
    alone(|core| {
        let test = Test { up: false, down: true, messages: Some(3), omit_ms: 1000, ..upload() };
        let mut server = Transfer::begun(core, Transfer::server(), test);
        // Without a path, each call fills the queue.
        let mut made = |ms| {
            server.fill(core, at(ms), SESSION, 64);
            server.sender.as_ref().unwrap().made
        };
        assert_eq!([0, 1000, 1001].map(&mut made), [64, 67, 67]);
    });
}

#[test]
fn a_refused_client_stays_refused_and_is_closed() {
    let limits: Limits = crate::perf::limits::tests::of_rate(1_000_000);
    alone(|core| {
        let mut server = Transfer::server();
        server.hears(core, &limits, hello(Test { rate_bps: Some(2_000_000), ..upload() }));
        assert!(server.usage().ended && !server.has_begun());
        server.hears(core, &limits, hello(Test { rate_bps: Some(500_000), ..upload() }));
        assert!(!server.has_begun());
        let end = server.next_timeout().unwrap();
        assert_eq!(end, at(0) + ending::REFUSED);
        server.fill(core, end - Duration::from_millis(1), SESSION, 64);
        assert_ne!(server.stage, Stage::Closing);
        server.fill(core, end, SESSION, 64);
        assert_eq!(server.stage, Stage::Closing);
    });
}

#[test]
fn errors_of_the_file_are_told() {
    alone(|core| {
        // The disk turns out to be full when the server writes its buffered data.
        let mut server = Transfer::begun(core, Transfer::storing("/dev/full"), upload());
        for _ in 0..20 {
            server.gets(core, 1200);
        }
        assert!(
            server.failure.as_ref().is_some_and(|why| why.contains("cannot write")),
            "{:?}",
            server.failure
        );
        let mut server = Transfer::begun(core, Transfer::storing("/dev/full"), upload());
        server.gets(core, 1200);
        assert_eq!(server.failure, None);
        server.close(core, at(1), SESSION);
        assert!(
            server.failure.as_ref().is_some_and(|why| why.contains("cannot write")),
            "{:?}",
            server.failure
        );
        let missing = Transfer::storing("/nowhere/file");
        let server = Transfer::begun(core, missing, Test { up: false, down: true, ..upload() });
        let why = server.failure.unwrap_or_default();
        assert!(why.starts_with("--file /nowhere/file: No such file"), "{why}");
        // A directory can be opened, but not read.
        let test = Test { up: false, down: true, ..upload() };
        let mut server = Transfer::begun(core, Transfer::storing("/"), test);
        server.fill(core, at(0), SESSION, 64);
        let why = server.failure.unwrap_or_default();
        assert!(why.contains("cannot read the file of --file: Is a directory"), "{why}");
    });
}

#[test]
fn echoes_leave_the_file_alone() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "kept").unwrap();
    alone(|core| {
        let path = file.path().to_str().unwrap();
        let mut server = Transfer::begun(core, Transfer::storing(path), Test { echo: true, ..upload() });
        server.gets(core, 1200);
        server.close(core, at(1), SESSION);
    });
    assert_eq!(fs::read_to_string(file.path()).unwrap(), "kept");
}

#[test]
fn a_server_gives_its_output_only_after_the_test() {
    alone(|core| {
        let test = Test { down: true, up: false, messages: Some(1), server_output: true, ..upload() };
        let mut server = Transfer::begun(core, Transfer::server(), test);
        server.hears(core, &Limits::default(), Control::Output { from: 0 });
        assert_eq!(server.asked, None, "the server still sends");
        server.stage = Stage::Receiving;
        server.hears(core, &Limits::default(), Control::Output { from: 7 });
        assert_eq!(server.asked, Some(7));
    });
}

#[test]
fn a_client_puts_the_output_together_and_stops_at_its_end() {
    alone(|core| {
        let mut client = fetching(core);
        for control in [text(0, 8, "one "), text(0, 8, "one "), text(6, 8, "?"), text(4, 8, "two.")] {
            assert_eq!(client.stage, Stage::Fetching);
            client.hears(core, &Limits::default(), control);
        }
        assert_eq!((client.stage, client.server_output.as_str()), (Stage::Closing, "one two."));
        // The server's output turns out shorter than the server announced.
        let mut client = fetching(core);
        client.hears(core, &Limits::default(), text(0, 8, "one "));
        client.hears(core, &Limits::default(), text(4, 8, ""));
        assert_eq!(client.stage, Stage::Closing);
        // The server's output never ends.
        let mut client = fetching(core);
        let part = "x".repeat(400);
        while client.stage == Stage::Fetching {
            assert!(client.server_output.len() < MOST_OUTPUT);
            let from = client.server_output.len();
            client.hears(core, &Limits::default(), text(from, usize::MAX, &part));
        }
    });
}

#[test]
fn a_client_gives_up_on_the_output() {
    alone(|core| {
        let mut client = fetching(core);
        assert!(client.lap(core, at(0), SESSION).is_none(), "the test is over");
        let mut now = at(0);
        while client.stage == Stage::Fetching {
            assert!(now < at(60_000), "the client still asks");
            client.fill(core, now, SESSION, 64);
            now = client.next_timeout().unwrap_or(now);
        }
        assert_eq!(client.server_output, "the server did not send its output");
        assert_eq!(client.failure, None);
    });
}

#[test]
fn an_upload_without_results_fails() {
    alone(|core| {
        let mut client = Transfer::new(Mode::Ask(upload()), None, ClockId::here(), at(0));
        client.hears(core, &Limits::default(), Control::Ready);
        client.stage = Stage::Asking;
        client.say = Some(Say { what: Control::Done { sent: None, cpu: None }, at: at(0), left: REPEATS });
        let mut now = at(0);
        while client.stage == Stage::Asking {
            assert!(now < at(60_000), "the client still asks");
            client.fill(core, now, SESSION, 64);
            now = client.next_timeout().unwrap_or(now);
        }
        assert_eq!(client.stage, Stage::Closing);
        assert!(client.failure.is_some_and(|why| why.contains("did not report what it received")));
    });
}

#[test]
fn the_first_error_is_told() {
    alone(|core| {
        let test = Test { down: true, ..upload() };
        let mut client = Transfer::new(Mode::Ask(test), None, ClockId::here(), at(0));
        client.hears(core, &Limits::default(), Control::Ready);
        client.failure = Some("cannot write".to_owned());
        client.lack_results();
        client.fail(core, at(0), SESSION, "stopped".to_owned());
        assert_eq!((client.stage, client.failure.as_deref()), (Stage::Closing, Some("cannot write")));
    });
}

#[test]
fn bursts_that_a_client_requests_reach_the_sender() {
    alone(|core| {
        let test = Test { up: false, down: true, rate_bps: Some(9_600_000), burst: 10, ..upload() };
        let mut server = Transfer::begun(core, Transfer::server(), test);
        assert!(server.fill(core, at(0), SESSION, 64));
        assert_eq!(server.sender.unwrap().made, 10);
    });
    assert_eq!(Test { rate_bps: Some(1), ..Test::default() }.load().rate, Some(Rate::from_bps(1)));
}

#[test]
fn a_server_runs_one_test_of_its_version() {
    alone(|core| {
        let mut server = Transfer::server();
        server.hears(core, &Limits::default(), Control::Hello { version: VERSION + 1, test: upload() });
        assert!(!server.has_begun() && !server.usage().ended, "the client may ask again");
        let test = Test { up: false, down: true, messages: Some(3), ..upload() };
        let mut server = Transfer::begun(core, server, test.clone());
        server.fill(core, at(0), SESSION, 64);
        // The client repeats its request until it receives the answer. A repeated request changes nothing,
        // even if it asks for a different test or exceeds the limits.
        let strict = crate::perf::limits::tests::of_rate(1);
        server.hears(core, &strict, hello(Test { messages: Some(9), rate_bps: Some(2), ..test.clone() }));
        assert_eq!((server.test, server.refused), (Some(test), None));
        assert_eq!(server.sender.unwrap().made, 3);
    });
}

#[test]
fn a_client_begins_once_and_hears_why_it_may_not() {
    alone(|core| {
        let refused = || Control::Refused { why: "no".into() };
        let ask =
            || Transfer::new(Mode::Ask(Test { messages: Some(3), ..upload() }), None, ClockId::here(), at(0));
        let mut client = ask();
        client.hears(core, &Limits::default(), refused());
        assert_eq!(client.failure.as_deref(), Some("the server refused the test: no"));
        let mut client = ask();
        client.hears(core, &Limits::default(), Control::Ready);
        client.fill(core, at(0), SESSION, 64);
        client.hears(core, &Limits::default(), Control::Ready);
        assert_eq!(
            client.sender.as_ref().map(|sender| sender.made),
            Some(3),
            "the client does not start again"
        );
        client.hears(core, &Limits::default(), refused());
        assert_eq!(client.failure.as_deref(), Some("the server ended the test: no"));
        client.failure = None;
        client.hears(core, &Limits::default(), refused());
        assert_eq!(client.failure, None, "the client is already closing");
        let mut server = Transfer::server();
        server.hears(core, &Limits::default(), Control::Ready);
        server.hears(core, &Limits::default(), refused());
        assert!(!server.has_begun() && server.failure.is_none(), "only a client accepts a refusal");
    });
}

#[test]
fn invalid_control_datagrams_and_echoes_beyond_the_queue_are_dropped() {
    alone(|core| {
        let test = Test { echo: true, ..upload() };
        let mut server = Transfer::begun(core, Transfer::server(), test);
        server.on_message(core, at(0), SESSION, (64, &Limits::default()), b"\xff\xff\xff\xffperf?".to_vec());
        assert_eq!((server.meter.malformed, server.meter.total.messages), (1, 0));
        let message = message::write(0, 1200, ClockId::here(), at(0));
        server.on_message(core, at(0), SESSION, (0, &Limits::default()), message);
        assert_eq!(server.usage().bytes, 1200, "the message was received but not echoed");
    });
}

#[test]
fn a_client_without_the_end_of_the_data_did_not_end_well() {
    alone(|core| {
        for up in [false, true] {
            let test = Test { up, down: true, size: 1200, ..Test::default() };
            let mut client = Transfer::new(Mode::Ask(test), None, ClockId::here(), at(0));
            client.hears(core, &Limits::default(), Control::Ready);
            if up {
                // The client has sent everything and waits for the rest of the server's data.
                client.stage = Stage::Lingering { until: at(1) };
            }
            assert!(!client.ended_well(Reason::ClosedByPeer), "the server was interrupted; up: {up}");
            client.hears(core, &Limits::default(), Control::Done { sent: None, cpu: None });
            assert!(client.ended_well(Reason::ClosedByPeer), "up: {up}");
        }
        let server = Transfer::begun(core, Transfer::server(), upload());
        assert!(server.ended_well(Reason::ClosedByPeer), "a client may close at any time");
    });
}

#[test]
fn a_client_receives_for_as_long_as_the_server_sends() {
    alone(|core| {
        let lingering = |core: &mut Core| {
            let test = Test { down: true, ..upload() };
            let mut client = Transfer::new(Mode::Ask(test), None, ClockId::here(), at(0));
            client.hears(core, &Limits::default(), Control::Ready);
            client.stage = Stage::Lingering { until: at(0) + LINGER };
            client
        };
        let mut client = lingering(core);
        let message = message::write(0, 1200, ClockId::here(), at(4000));
        client.on_message(core, at(4000), SESSION, (64, &Limits::default()), message);
        client.fill(core, at(0) + LINGER, SESSION, 64);
        assert_eq!(client.stage, Stage::Lingering { until: at(4000) + LINGER });
        client.fill(core, at(4000) + LINGER, SESSION, 64);
        assert_eq!(client.stage, Stage::Closing);
        assert!(client.failure.is_some_and(|why| why.contains("before it had sent all its data")));
        // If the server has sent all its data and its results, only the acknowledgement of this end's results
        // may be missing.
        for results in [true, false] {
            let mut client = lingering(core);
            if results {
                let received = In::total(&client.meter);
                client.hears(core, &Limits::default(), Control::Results { received, cpu: None });
            }
            client.hears(core, &Limits::default(), Control::Done { sent: None, cpu: None });
            client.fill(core, at(0) + LINGER, SESSION, 64);
            assert_eq!((client.stage, client.failure.is_none()), (Stage::Closing, results));
        }
    });
}
