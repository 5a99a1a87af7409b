//! Properties of the link models.

use mpdccp_linkem::{Limit, Link, LinkConfig, MODELS, Meta, Model, RateModel, State, Step};
use mpdccp_units::{Duration, Rate, Time};

const HOUR: Duration = Duration::from_secs(3_600);

fn course(name: &str, seed: u64) -> Vec<Step> {
    Model::named(name).unwrap().course(seed).take_while(|step| step.at < HOUR).collect()
}

fn usual(name: &str) -> [LinkConfig; 2] {
    Model::named(name).unwrap().usual()
}

/// Returns the `q` quantile.
fn quantile(values: impl Iterator<Item = f64>, q: f64) -> f64 {
    let mut all: Vec<f64> = values.collect();
    all.sort_by(f64::total_cmp);
    all[(all.len() as f64 * q) as usize]
}

/// Returns the rates of one direction in Mbit/s, without outages.
fn rates(steps: &[Step], way: usize) -> impl Iterator<Item = f64> + '_ {
    steps.iter().map(move |step| step.ways[way].rate.mbps()).filter(|rate| *rate > 0.0)
}

/// Returns the durations of the outages.
fn gaps(steps: &[Step]) -> Vec<Duration> {
    let mut gaps = Vec::new();
    let mut since = None;
    for step in steps {
        match (since, step.ways[1].rate == Rate::ZERO) {
            (None, true) => since = Some(step.at),
            (Some(from), false) => {
                gaps.push(step.at - from);
                since = None;
            }
            _ => {}
        }
    }
    gaps
}

/// Returns the time that a full queue takes to drain, in ms.
fn queue_ms(config: &LinkConfig) -> f64 {
    let (Limit::Bytes(bytes), RateModel::Constant(rate)) = (config.queue.limit, &config.rate) else {
        panic!("{config:?}")
    };
    rate.time_for(bytes).as_secs_f64() * 1e3
}

#[test]
fn all_can_be_made_begin_at_zero_and_repeat_by_seed() {
    for model in MODELS {
        assert_eq!(Model::named(model.name), Some(model));
        let begin: Vec<Step> = model.course(7).take(500).collect();
        assert!(begin[0].at.is_zero() && begin.is_sorted_by(|a, b| a.at < b.at), "{model:?}");
        assert_eq!(begin, model.course(7).take(500).collect::<Vec<_>>(), "{model:?}");
        let varies = begin.len() > 1;
        assert_eq!(varies, begin != model.course(8).take(500).collect::<Vec<_>>(), "{model:?}");
        for (way, usual) in model.usual().into_iter().enumerate() {
            assert_eq!(State::of(&usual).applied(usual.clone()), usual);
            // In every state, the link must carry packets.
            let mut link = Link::new(usual.clone(), 1, Time::ZERO).unwrap();
            for step in begin.iter().take(100) {
                link.reconfigure(Time::ZERO + step.at, step.ways[way].applied(usual.clone())).unwrap();
                link.push(Time::ZERO + step.at, Meta { bytes: 1_500, ..Meta::default() }, ());
            }
            let end = Time::from_millis(600_000);
            assert!(std::iter::from_fn(|| link.pop(end)).count() > begin.len().min(100) / 2, "{model:?}");
        }
    }
    assert!(Model::named("adsl").is_none());
}

#[test]
fn lte_has_the_published_medians_and_wanders() {
    let steps = course("lte", 1);
    for (way, median) in [(0, 6.0), (1, 13.0)] {
        let at = |q| quantile(rates(&steps, way), q) / median;
        assert!((at(0.5) - 1.0).abs() < 0.05, "{}", at(0.5));
        // The logarithm of the rate is normally distributed with a standard deviation of one half. The 0.05
        // and 0.95 quantiles of a normal distribution are 1.645 standard deviations from its median.
        assert!((at(0.95) / at(0.05) / (2.0 * 1.645 * 0.5f64).exp() - 1.0).abs() < 0.15);
        assert!((queue_ms(&usual("lte")[way]) - 1_000.0).abs() < 1.0);
    }
    // After ten steps (1 s), the correlation of the rate's logarithm with its earlier value is 1/e; after
    // fifty steps, it is near zero.
    let logs: Vec<f64> = rates(&steps, 1).map(|rate| (rate / 13.0).ln()).collect();
    let correlation = |lag: usize| {
        let product: f64 = logs.iter().zip(&logs[lag..]).map(|(a, b)| a * b).sum();
        product / (logs.len() - lag) as f64 / 0.25
    };
    assert!((correlation(10) - (-1.0f64).exp()).abs() < 0.07, "{}", correlation(10));
    assert!(correlation(50).abs() < 0.07, "{}", correlation(50));
}

#[test]
fn five_g_is_fast_but_for_seconds_on_lte() {
    let steps = course("5g", 1);
    let on_lte = |step: &&Step| step.ways[1].delay == Duration::from_millis(25);
    let share = steps.iter().filter(on_lte).count() as f64 / steps.len() as f64;
    assert!((0.1..0.25).contains(&share), "{share}");
    let fast: Vec<Step> = steps.iter().filter(|step| !on_lte(step)).copied().collect();
    let median = quantile(rates(&fast, 1), 0.5);
    assert!((135.0..165.0).contains(&median), "{median}");
    // In 3,600 s there are about 120 periods on 5G (25 s on average) and 120 on LTE (5 s), each preceded by a
    // handoff of 300 ms. Two handoffs may merge.
    let gaps = gaps(&steps);
    assert!((180..300).contains(&gaps.len()), "{}", gaps.len());
    let shortest = Duration::from_millis(300);
    assert!(
        gaps.iter().all(|gap| *gap >= shortest)
            && quantile(gaps.iter().map(Duration::as_secs_f64), 0.5) < 0.31
    );
}

#[test]
fn starlink_changes_every_15_seconds_with_losses() {
    let steps = course("starlink", 1);
    for pair in steps.windows(2) {
        let at = pair[1].at;
        let boundary = at.as_millis() % 15_000 == 0;
        assert_eq!(pair[0].ways[0].delay != pair[1].ways[0].delay, boundary, "{at:?}");
        assert_eq!(pair[1].ways.map(|way| way.loss), [if boundary { 0.5 } else { 0.0 }; 2], "{at:?}");
        assert_eq!(pair[1].at - pair[0].at, Duration::from_millis(250));
    }
    assert_eq!(steps[0].ways[0].loss, 0.0);
    let trips = || steps.iter().map(|step| (step.ways[0].delay + step.ways[1].delay).as_secs_f64() * 1e3);
    assert!(trips().all(|ms| (40.0..=60.0).contains(&ms)));
    assert!((quantile(trips(), 0.5) - 50.0).abs() < 3.0);
    for (way, low, high) in [(0, 8.0, 26.0), (1, 100.0, 250.0)] {
        let median = quantile(rates(&steps, way), 0.5) / ((low + high) / 2.0);
        assert!((0.85..1.15).contains(&median), "{median}");
        assert!(
            quantile(rates(&steps, way), 0.01) > low * 0.7 && quantile(rates(&steps, way), 0.99) < high * 1.4
        );
    }
}

#[test]
fn fixed_links_have_their_figures() {
    let facts =
        |name| usual(name).map(|c| (State::of(&c).rate.mbps(), c.delay.as_millis(), queue_ms(&c).round()));
    assert_eq!(facts("geo"), [(3.0, 300, 1_000.0), (19.0, 300, 1_000.0)]);
    assert_eq!(facts("dsl"), [(1.0, 12, 600.0), (16.0, 12, 100.0)]);
    assert_eq!(facts("cable"), [(10.0, 8, 240.0), (100.0, 6, 80.0)]);
    for name in ["geo", "dsl", "cable"] {
        let steps = course(name, 1);
        assert_eq!(steps.len(), 1);
        assert_eq!(steps[0].ways, usual(name).each_ref().map(State::of));
    }
}

#[test]
fn wifi_has_the_rates_of_the_standard_and_sends_in_bursts() {
    let steps = course("wifi", 1);
    let table = [26.0, 39.0, 52.0, 58.5, 65.0];
    let mut seen: Vec<f64> = rates(&steps, 0).collect();
    seen.sort_by(f64::total_cmp);
    seen.dedup();
    assert_eq!(seen, table);
    let place = |rate: f64| table.iter().position(|r| *r == rate).unwrap();
    let places: Vec<usize> = rates(&steps, 1).map(place).collect();
    assert!(
        places.windows(2).all(|pair| pair[0].abs_diff(pair[1]) <= 1),
        "the rate may change only by one step"
    );
    assert!(usual("wifi").iter().all(|c| c.aggregation.is_some_and(|a| a.packets == 32)));
}

#[test]
fn a_drive_rises_and_falls_and_has_gaps_at_handovers() {
    let steps = course("drive", 1);
    let (low, high) = (quantile(rates(&steps, 1), 0.05), quantile(rates(&steps, 1), 0.95));
    assert!(low > 0.19 && high <= 22.0 && high / low > 5.0, "{low} {high}");
    assert!(rates(&steps, 0).all(|rate| rate <= 10.0));
    // The car passes 84 masts per hour. Because of shadowing, it sometimes changes back and forth between two
    // cells.
    let gaps = gaps(&steps);
    assert!((84..500).contains(&gaps.len()), "{}", gaps.len());
    let long = gaps.iter().filter(|gap| **gap >= Duration::from_secs(1)).count();
    assert!(gaps.iter().all(|gap| *gap >= Duration::from_millis(50)));
    let share = long as f64 / gaps.len() as f64;
    assert!((0.08..0.25).contains(&share), "{share}");
}
