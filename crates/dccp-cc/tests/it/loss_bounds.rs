//! Losses due to sending too much, and other losses.

use crate::model::scenario::{Make, at, bbr, bulk, link, ms};
use crate::model::{full, page, summary};
use dccp_cc::{Bbr1, Bbr1Tuning, Controller};
use mpdccp_linkem::{Aggregation, Limit, LinkConfig, LossModel, Policer, QueueConfig, QueueKind};
use mpdccp_units::Rate;

const WITHOUT: Bbr1Tuning = Bbr1Tuning { bound_by_losses: false, ..Bbr1Tuning::TUNED };
/// Linux's BBR without its detection of policers.
const NOT_DETECTING: Bbr1Tuning = Bbr1Tuning { linux: true, ..Bbr1Tuning::DRAFT };

/// Runs a flow over a policer whose bucket has `burst` bytes. Returns the used share of the policed rate and
/// the share of lost packets, both in per cent.
fn policed(make: Make, rtt: f64, burst: u32) -> (f64, f64) {
    let policer = Some(Policer { rate: Rate::from_mbps(10.0), burst });
    let (mbps, lost) = rate_and_losses(LinkConfig { policer, ..link(100.0, ms(rtt), 1.0) }, make);
    (100.0 * mbps / full(10.0), lost)
}

/// Runs a flow over a link. Returns its rate and the share of lost packets, in per cent, from 5 s on.
fn rate_and_losses(link: LinkConfig, make: Make) -> (f64, f64) {
    let mut w = bulk(link, vec![(0.0, make(3))]);
    w.run(at(5.0));
    let before = (w.sessions[0].sender(0).lost, w.sessions[0].got.len());
    w.run(at(30.0));
    let lost = (w.sessions[0].sender(0).lost - before.0) as f64;
    let got = (w.sessions[0].got.len() - before.1) as f64;
    (summary(&w.sessions[0].got, at(5.0), at(30.0)).mbps, 100.0 * lost / (lost + got))
}

#[test]
fn losses_of_a_full_queue_are_not_taken_for_the_paths_own() {
    // The medium lets bursts through, whose highest rate is above the mean rate, and the queue holds little
    // more than a burst. At the policer, a BDP is less than the lowest window.
    let lumps = |rtt: f64, wait: f64, packets: u32| LinkConfig {
        aggregation: Some(Aggregation { access: ms(wait), packets }),
        ..link(200.0, ms(rtt), 0.3)
    };
    let policer = Some(Policer { rate: Rate::from_mbps(3.0), burst: 100_000 });
    let links = [
        ("bursts of 20", lumps(6.0, 5.0, 20)),
        ("bursts of 10", lumps(6.0, 7.0, 10)),
        ("policed", LinkConfig { policer, ..link(10.0, ms(2.0), 1.0) }),
    ];
    for (name, link) in links {
        let (mbps, lost) = rate_and_losses(link, &bbr(Bbr1Tuning::TUNED));
        println!("{name}: {mbps:.1} Mbit/s, {lost:.1} % lost");
        assert!(lost < 6.0, "{name}: {lost}");
    }
}

/// Returns the flow's goodput on a link with random losses, in per cent of the link's rate minus the losses.
fn lossy(make: Make, mbps: f64, rtt: f64, loss: f64) -> f64 {
    left(make, mbps, rtt, LossModel::Bernoulli(loss), loss)
}

/// Like `lossy`, but with a `model` that loses a share of `loss` on average.
fn left(make: Make, mbps: f64, rtt: f64, model: LossModel, loss: f64) -> f64 {
    let mut w = bulk(LinkConfig { loss: model, ..link(mbps, ms(rtt), 1.0) }, vec![(0.0, make(3))]);
    w.run(at(20.0));
    100.0 * summary(&w.sessions[0].got, at(3.0), at(20.0)).mbps / full(mbps) / (1.0 - loss)
}

#[test]
fn a_policer_loses_little() {
    let with = policed(&bbr(Bbr1Tuning::TUNED), 50.0, 50_000);
    let without = policed(&bbr(WITHOUT), 50.0, 50_000);
    println!("share and loss at a policer: {with:?}, without bounds {without:?}");
    assert!(with.0 > 90.0 && with.1 < 2.5 && without.1 > 5.0);
    page::check("ccid5.md", "bound_by_losses, on", &format!("{:.1}", with.1));
    page::check("ccid5.md", "bound_by_losses, off", &format!("{:.1}", without.1));
    // If a large bucket absorbs all packets of a probe, the probe seems to succeed. It must not trigger the
    // next probe at once.
    let large = policed(&bbr(Bbr1Tuning::TUNED), 20.0, 200_000);
    println!("with a large bucket: {large:?}");
    assert!(large.0 > 90.0 && large.1 < 4.0, "{large:?}");
}

#[test]
fn the_reference_detects_a_policer() {
    let with = policed(&|seed| Box::new(Bbr1::tcp(1500, seed)), 5.0, 50_000);
    let without = policed(&bbr(NOT_DETECTING), 5.0, 50_000);
    println!("share and loss of Linux's BBR at a policer: {with:?}, without detection {without:?}");
    assert!(with.0 > 97.0 && with.1 < 0.5 * without.1, "{with:?} {without:?}");
}

#[test]
fn the_reference_finds_no_policer_without_one() {
    // The queue holds the excess of Startup. With a shorter queue, the losses would look like those of a
    // policer.
    let run = |loss: f64, cc: Box<dyn Controller>| {
        let model = if loss > 0.0 { LossModel::Bernoulli(loss) } else { LossModel::None };
        let mut w = bulk(LinkConfig { loss: model, ..link(20.0, ms(40.0), 4.0) }, vec![(0.0, cc)]);
        w.run(at(20.0));
        (w.sessions[0].sender(0).lost, w.sessions[0].got.len())
    };
    for loss in [0.0, 0.01, 0.05] {
        let (with, without) = (run(loss, Box::new(Bbr1::tcp(1500, 3))), run(loss, bbr(NOT_DETECTING)(3)));
        assert_eq!(with, without, "{loss}");
    }
}

#[test]
fn losses_in_bursts_are_put_up_with() {
    for (mbps, rtt, to_bad, to_good) in
        [(20.0, 40.0, 0.002, 0.1), (50.0, 40.0, 0.002, 0.2), (20.0, 60.0, 0.004, 0.2)]
    {
        let model = LossModel::GilbertElliott { to_bad, to_good, loss_good: 0.0, loss_bad: 1.0 };
        let share = left(&bbr(Bbr1Tuning::TUNED), mbps, rtt, model, to_bad / (to_bad + to_good));
        println!("{mbps} Mbit/s, {rtt} ms, bursts of {}: {share:.0} %", 1.0 / to_good);
        assert!(share > 70.0, "{share}");
    }
}

#[test]
fn random_losses_are_put_up_with() {
    for (mbps, rtt, loss) in [(10.0, 20.0, 0.01), (10.0, 20.0, 0.05), (50.0, 40.0, 0.02), (50.0, 40.0, 0.05)]
    {
        let share = lossy(&bbr(Bbr1Tuning::TUNED), mbps, rtt, loss);
        println!("{mbps} Mbit/s, {rtt} ms, loss {loss}: {share:.0} %");
        assert!(share > 90.0, "{share}");
    }
}

/// Returns the share of packets lost by a flow with a constant rate, in per cent.
fn offered(link: LinkConfig, mbps: f64) -> f64 {
    use crate::model::{Session, Source, World};
    use mpdccp_units::Time;
    let reverse = link.delay;
    let source = Source::Cbr { rate: Rate::from_mbps(full(mbps)), queue: 20 };
    let session = Session::new(source, Time::ZERO, vec![(0, reverse, bbr(Bbr1Tuning::TUNED)(3))]);
    let mut w = World::new(vec![link], 1, vec![session]);
    w.run(at(5.0));
    let before = (w.sessions[0].sender(0).lost, w.sessions[0].got.len());
    w.run(at(25.0));
    let lost = (w.sessions[0].sender(0).lost - before.0) as f64;
    100.0 * lost / (lost + (w.sessions[0].got.len() - before.1) as f64)
}

#[test]
fn excess_over_a_links_rate_is_not_lost_for_ever() {
    let policer = Some(Policer { rate: Rate::from_mbps(20.0), burst: 15_000 });
    let policed = LinkConfig { policer, ..link(100.0, ms(20.0), 1.0) };
    let short = LinkConfig {
        queue: QueueConfig { kind: QueueKind::DropTail, limit: Limit::Packets(5) },
        ..link(100.0, ms(20.0), 1.0)
    };
    let long = LinkConfig {
        queue: QueueConfig { kind: QueueKind::DropTail, limit: Limit::Bytes(62_500) },
        ..link(50.0, ms(100.0), 1.0)
    };
    for (name, link, mbps) in
        [("policed", policed, 28.0), ("5 packets", short, 140.0), ("100 ms", long, 58.0)]
    {
        let lost = offered(link, mbps);
        println!("{name}: {lost:.1} % lost of {mbps} Mbit/s");
        assert!(lost < 3.0, "{name}: {lost}");
    }
}
