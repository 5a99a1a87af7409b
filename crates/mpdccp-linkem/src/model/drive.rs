//! A drive through a town, past the cells of an LTE network. The rate rises and falls with the distance to
//! the mast, and each change of cells causes an outage.

use mpdccp_units::{Duration, Rate};

use super::kind::{Course, Model, State, config, every, mbps, ms};
use super::walk::Walk;
use crate::random::Random;
use crate::{Jitter, LinkConfig, Spread};

pub(super) static DRIVE: Model = Model {
    name: "drive",
    about: "LTE in a car at 50 km/h, cells 600 m apart: varying rate, short and long gaps at handovers",
    source: "path loss and rate by signal and interference: 3GPP TR 36.942, annex A and section 4.5; shadowing that decorrelates within 50 m: Gudmundson, Correlation model for shadow fading in mobile radio systems (1991); gaps of a handover: Xu et al., Understanding Operational 5G (SIGCOMM 2020); gaps of a lost radio link: timer T310 (1 s) of 3GPP TS 36.331",
    usual,
    course,
};

const TICK: Duration = ms(50);
/// Speed, metres per second.
const SPEED: f64 = 14.0;
/// Distance from mast to mast, and from the road to a mast, in metres.
const BETWEEN: f64 = 600.0;
const ASIDE: f64 = 60.0;
/// A mast's transmit power including antenna gain, and the noise in 10 MHz at a receiver with a noise figure
/// of 9 dB; both in dBm.
const SENT: f64 = 46.0 + 15.0;
const NOISE: f64 = -104.0 + 9.0;
const MHZ: f64 = 10.0;
/// Fraction of a cell's capacity that the user gets; other users get the rest.
const SHARE: f64 = 0.5;
/// Standard deviation of the shadowing, dB.
const SHADOWING: f64 = 8.0;
const SHADOW_METRES: f64 = 50.0;
/// A new cell is chosen only if its signal is stronger by at least this margin, in dB.
const HYSTERESIS: f64 = 3.0;
/// Outage during a handover, fraction of handovers that come too late, and outage after such a late handover
/// (radio link failure).
const GAP: Duration = ms(50);
const FAILING: f64 = 0.15;
const FAILURE: Duration = ms(1_000);
const DELAY: Duration = ms(25);

fn usual() -> [LinkConfig; 2] {
    let jitter = Jitter { spread: Spread::Normal(ms(4)), memory: ms(50), reorder: false };
    let link = |rate| LinkConfig { jitter, ..config(mbps(rate), DELAY, ms(1_000)) };
    [link(4.0), link(10.0)]
}

/// Returns the path loss in a town at 2 GHz, in dB.
fn path_loss(metres: f64) -> f64 {
    128.1 + 37.6 * libm::log10(metres / 1e3)
}

fn milliwatts(dbm: f64) -> f64 {
    libm::pow(10.0, dbm / 10.0)
}

/// Returns the spectral efficiency in bit/s/Hz: Shannon's limit for the ratio of signal to interference and
/// noise, minus the losses of a real radio.
fn efficiency(ratio: f64, implementation: f64, most: f64) -> f64 {
    (implementation * libm::log2(1.0 + ratio)).min(most)
}

fn course(mut random: Random) -> Course {
    let memory = Duration::from_secs_f64(SHADOW_METRES / SPEED);
    // Shadowing of the cell behind the car and of the cell ahead.
    let mut shadows = [(); 2].map(|()| Walk::new(SHADOWING, memory, TICK, &mut random));
    let (mut serving, mut until) = (0usize, Duration::ZERO);
    let begin = BETWEEN * random.unit();
    every(TICK, move |now| {
        let road = begin + SPEED * now.as_secs_f64();
        let behind = libm::floor(road / BETWEEN) as usize;
        let power = |cell: usize, shadow: f64| {
            let along = road - cell as f64 * BETWEEN;
            SENT - path_loss(libm::sqrt(along * along + ASIDE * ASIDE)) + shadow
        };
        // Neighbouring cells have independent shadowing: even cells use the first value, odd cells the
        // second.
        let shadow = shadows.each_mut().map(|walk| walk.step(&mut random));
        let near = [behind, behind + 1].map(|cell| (cell, power(cell, shadow[cell % 2])));
        let strongest = if near[0].1 >= near[1].1 { near[0] } else { near[1] };
        let held = near.into_iter().find(|(cell, _)| *cell == serving);
        if now.is_zero() {
            serving = strongest.0;
        } else if held.is_none_or(|(_, held)| strongest.1 > held + HYSTERESIS) {
            serving = strongest.0;
            until = now + if random.chance(FAILING) { FAILURE } else { GAP };
        }
        let signal: f64 = near.iter().filter(|(cell, _)| *cell == serving).map(|(_, p)| milliwatts(*p)).sum();
        let others: f64 = near.iter().filter(|(cell, _)| *cell != serving).map(|(_, p)| milliwatts(*p)).sum();
        let ratio = signal / (others + milliwatts(NOISE));
        let state = |implementation, most| {
            let rate = mbps((efficiency(ratio, implementation, most) * MHZ * SHARE).max(0.2));
            State { rate: if now < until { Rate::ZERO } else { rate }, delay: DELAY, loss: 0.0 }
        };
        [state(0.4, 2.0), state(0.6, 4.4)]
    })
}
