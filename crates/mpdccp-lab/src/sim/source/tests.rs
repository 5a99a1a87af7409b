use core::time::Duration;

use super::*;
use crate::scenario::Scenario;

const SECOND: Duration = Duration::from_secs(1);

/// Returns the time and size of all datagrams that a flow with these keys sends in 10 s. `dropped` returns
/// the number of drops up to a time.
fn run(keys: &str, seed: u64, dropped: impl Fn(Time) -> u64) -> Vec<(Time, usize)> {
    let text = format!(
        "name='t'\ntitle='t'\nduration_s=10\n[[path]]\nname='p'\nrate='10 Mbit/s'\nqueue='125000 B'\n\
         [[variant]]\nlabel='ccid2'\nccid=2\n[[flow]]\nname='f'\nkind='udp'\npayload=1000\n{keys}\n"
    );
    let scenario = Scenario::parse("t.toml", &text).unwrap();
    let start = Time::from_millis(1_000);
    let mut source = source(&scenario.flows[0], start, start + 10 * SECOND, seed);
    let mut all = Vec::new();
    let mut sizes = Vec::new();
    while let Some(now) = source.next() {
        source.emit(now, dropped(now), &mut sizes);
        assert!(source.next().is_none_or(|t| t > now), "the source does not advance");
        all.extend(sizes.drain(..).map(|size| (now, size)));
    }
    all
}

fn bytes(datagrams: &[(Time, usize)]) -> usize {
    datagrams.iter().map(|(_, size)| size).sum()
}

#[test]
fn constant_and_paused_sources_keep_their_rate() {
    let constant = run("rate = '8 Mbit/s'", 1, |_| 0);
    assert_eq!(constant.len(), 10_000);
    let paused =
        run("rate = '8 Mbit/s'\nsource = { kind = 'on-off', on = '500 ms', off = '1500 ms' }", 1, |_| 0);
    assert_eq!(paused.len(), 2_500);
    let phase = |t: Time| (t.since(Time::from_millis(1_000)).as_millis() % 2_000) as u64;
    assert!(paused.iter().all(|(t, _)| phase(*t) < 500));
}

#[test]
fn poisson_has_its_mean_and_variance() {
    let poisson = run("rate = '8 Mbit/s'\nsource = { kind = 'poisson' }", 1, |_| 0);
    // Allow five standard deviations of 100 packets each.
    assert!(poisson.len().abs_diff(10_000) < 500, "{}", poisson.len());
    let gaps: Vec<f64> = poisson.windows(2).map(|w| w[1].0.since(w[0].0).as_secs_f64() * 1e3).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!((variance.sqrt() / mean - 1.0).abs() < 0.1, "{mean} {variance}");
    assert_ne!(poisson, run("rate = '8 Mbit/s'\nsource = { kind = 'poisson' }", 2, |_| 0));
}

#[test]
fn video_climbs_its_ladder_and_steps_down_when_datagrams_are_dropped() {
    let keys =
        "source = { kind = 'video', frames_per_s = 25, ladder = ['1 Mbit/s', '2 Mbit/s', '4 Mbit/s'] }";
    let free = run(keys, 1, |_| 0);
    let of_second = |all: &[(Time, usize)], s: u64| {
        let (from, to) = (Time::from_millis(1_000 * (s + 1)), Time::from_millis(1_000 * (s + 2)));
        let of: Vec<_> = all.iter().copied().filter(|(t, _)| *t >= from && *t < to).collect();
        bytes(&of) as f64 * 8.0 / 1e6
    };
    // There are 25 frames per second, and one in 60 is a key frame.
    for (second, mbps) in [(1, 1.0), (3, 2.0), (9, 4.0)] {
        let got = of_second(&free, second);
        assert!((got / mbps - 1.0).abs() < 0.15, "second {second}: {got}");
    }
    assert!(free.iter().all(|(_, size)| *size <= 1_000));
    // From 6 s on, one packet per second is dropped.
    let dropping = run(keys, 1, |t| t.as_nanos().saturating_sub(6_000_000_000) / 1_000_000_000);
    assert!(of_second(&dropping, 8) < 1.2, "{}", of_second(&dropping, 8));
}

#[test]
fn a_recorded_trace_is_replayed() {
    let file = std::env::temp_dir().join(format!("mpdccp-source-{}.txt", std::process::id()));
    std::fs::write(&file, "# ms bytes\n0 500\n10.5 2500\n\n3000 100\n").unwrap();
    let keys = format!("source = {{ kind = 'trace', file = '{}' }}", file.display());
    let got = run(&keys, 1, |_| 0);
    std::fs::remove_file(&file).unwrap();
    let ms = |t: Time| t.since(Time::from_millis(1_000)).as_micros() as u64;
    let got: Vec<(u64, usize)> = got.into_iter().map(|(t, size)| (ms(t), size)).collect();
    assert_eq!(got, [(0, 500), (10_500, 1_000), (10_500, 1_000), (10_500, 500), (3_000_000, 100)]);
}

#[test]
fn bulk_is_backlogged_between_its_start_and_end() {
    let mut bulk =
        bulk::Bulk { size: 7, start: Time::from_millis(5), stop: Time::from_millis(9), begun: false };
    assert_eq!((bulk.next(), bulk.backlog(Time::from_millis(6))), (Some(Time::from_millis(5)), None));
    bulk.emit(Time::from_millis(5), 0, &mut Vec::new());
    assert_eq!((bulk.next(), bulk.backlog(Time::from_millis(6))), (None, Some(7)));
    assert_eq!(bulk.backlog(Time::from_millis(9)), None);
}
