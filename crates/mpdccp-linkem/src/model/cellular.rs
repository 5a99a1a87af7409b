//! Stationary cellular access.

use mpdccp_units::{Duration, Rate};

use super::kind::{Course, Model, State, config, every, mbps, ms};
use super::walk::Walk;
use crate::random::Random;
use crate::{Jitter, LinkConfig, Spread};

/// Interval of rate changes.
const TICK: Duration = ms(100);

pub(super) static LTE: Model = Model {
    name: "lte",
    about: "LTE, stationary: the rate varies within seconds; 1 s of queue",
    source: "medians of 13 Mbit/s down and 6 Mbit/s up: Huang et al., A Close Examination of Performance and Power Characteristics of 4G LTE Networks (MobiSys 2012); varying rate: Winstein et al., Stochastic Forecasts Achieve High Throughput and Low Delay over Cellular Networks (NSDI 2013)",
    usual: lte,
    course: lte_course,
};

fn lte() -> [LinkConfig; 2] {
    // The radio link grants capacity every millisecond, and retransmits after 8 ms.
    let jitter = Jitter { spread: Spread::Normal(ms(4)), memory: ms(50), reorder: false };
    let link = |rate| LinkConfig { jitter, ..config(mbps(rate), ms(25), ms(1_000)) };
    [link(6.0), link(13.0)]
}

/// Returns `median` multiplied by `factor`, which is log-normally distributed, and limited to `bounds`.
/// `median` and `bounds` are in Mbit/s.
fn wandering(median: f64, factor: f64, bounds: [f64; 2]) -> Rate {
    mbps((median * factor).clamp(bounds[0], bounds[1]))
}

fn lte_course(mut random: Random) -> Course {
    let mut walks = [(); 2].map(|()| Walk::new(0.5, ms(1_000), TICK, &mut random));
    let delay = ms(25);
    every(TICK, move |_| {
        let [up, down] = walks.each_mut().map(|walk| walk.factor(&mut random));
        let state = |rate| State { rate, delay, loss: 0.0 };
        [state(wandering(6.0, up, [0.3, 30.0])), state(wandering(13.0, down, [0.5, 60.0]))]
    })
}

pub(super) static FIVE_G: Model = Model {
    name: "5g",
    about: "mid-band 5G that sometimes falls back to LTE for seconds",
    source: "100 to 200 Mbit/s down in mid-band and frequent handoffs to LTE: Narayanan et al., A First Look at Commercial 5G Performance on Smartphones (WWW 2020)",
    usual: five_g,
    course: five_g_course,
};

fn five_g() -> [LinkConfig; 2] {
    // Packets wait for a slot of their direction: each slot of a 5 ms frame belongs either to the uplink or
    // to the downlink.
    let jitter = Jitter { spread: Spread::Uniform(ms(2)), memory: Duration::ZERO, reorder: false };
    let link = |rate, queue| LinkConfig { jitter, ..config(mbps(rate), ms(11), ms(queue)) };
    [link(30.0, 200), link(150.0, 100)]
}

/// Mean time on 5G and mean time on LTE, in seconds.
const STAYS: [f64; 2] = [25.0, 5.0];
/// Number of ticks that a handoff takes, during which there is no service.
const HANDOFF_TICKS: u32 = 3;

fn five_g_course(mut random: Random) -> Course {
    let mut walks = [(); 2].map(|()| Walk::new(0.3, ms(2_000), TICK, &mut random));
    let (mut lte, mut gap) = (false, 0u32);
    every(TICK, move |_| {
        let [up, down] = walks.each_mut().map(|walk| walk.factor(&mut random));
        // Times between handoffs are exponentially distributed.
        if random.chance(TICK.as_secs_f64() / STAYS[usize::from(lte)]) {
            (lte, gap) = (!lte, HANDOFF_TICKS);
        }
        let rates = if lte {
            [wandering(6.0, up, [0.3, 30.0]), wandering(20.0, down, [0.5, 60.0])]
        } else {
            [wandering(30.0, up, [3.0, 80.0]), wandering(150.0, down, [20.0, 400.0])]
        };
        let served = gap == 0;
        gap = gap.saturating_sub(1);
        let delay = ms(if lte { 25 } else { 11 });
        rates.map(|rate| State { rate: if served { rate } else { Rate::ZERO }, delay, loss: 0.0 })
    })
}
