//! Links with constant properties.

use alloc::boxed::Box;
use mpdccp_units::Duration;

use super::kind::{Course, Model, State, Step, config, mbps, ms};
use crate::random::Random;
use crate::{Jitter, LinkConfig, Spread};

fn constant(usual: fn() -> [LinkConfig; 2]) -> Course {
    let ways = usual().each_ref().map(State::of);
    Box::new(core::iter::once(Step { at: Duration::ZERO, ways }))
}

pub(super) static GEO: Model = Model {
    name: "geo",
    about: "a geostationary satellite: round trips above 500 ms",
    source: "round trip of about 600 ms: Huston, Using LEOs and GEOs (APNIC, 2022); 19 Mbit/s down: Ookla, Q3 2021, for HughesNet and Viasat",
    usual: geo,
    course: |_: Random| constant(geo),
};

fn geo() -> [LinkConfig; 2] {
    // The modem must request capacity from the satellite's controller before it sends, so its delay varies.
    let jitter = Jitter { spread: Spread::Normal(ms(10)), memory: ms(1_000), reorder: false };
    let link = |rate| LinkConfig { jitter, ..config(mbps(rate), ms(300), ms(1_000)) };
    [link(3.0), link(19.0)]
}

pub(super) static DSL: Model = Model {
    name: "dsl",
    about: "ADSL2+ on a line of medium length, with interleaving and a deep upstream queue",
    source: "interleaving and last-mile delay, and modems' queues: Sundaresan et al., Broadband Internet Performance: A View From the Gateway (SIGCOMM 2011); rates within ITU-T G.992.5",
    usual: dsl,
    course: |_: Random| constant(dsl),
};

fn dsl() -> [LinkConfig; 2] {
    [config(mbps(1.0), ms(12), ms(600)), config(mbps(16.0), ms(12), ms(100))]
}

pub(super) static CABLE: Model = Model {
    name: "cable",
    about: "a cable modem without queue management: 250 ms of upstream queue",
    source: "250 ms under load without queue management: Livingood and White (eds.), Improving Latency with Active Queue Management (AQM) During COVID-19 (arXiv:2107.13968)",
    usual: cable,
    course: |_: Random| constant(cable),
};

fn cable() -> [LinkConfig; 2] {
    // Upstream, the modem must request capacity. Grants are announced every 2 ms, so the delay varies.
    let asked = Jitter { spread: Spread::Uniform(ms(2)), ..Jitter::default() };
    [LinkConfig { jitter: asked, ..config(mbps(10.0), ms(8), ms(240)) }, config(mbps(100.0), ms(6), ms(80))]
}
