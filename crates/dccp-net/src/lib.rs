//! Linux I/O around the sans-IO core: carriers (DCCP in UDP, native IP protocol 33), the TUN device, and the data-plane loop.
//!
//! A [`Driver`] owns one [`mpdccp_proto::Endpoint`], its carrier sockets and one [`App`], and runs them on the thread that
//! calls [`Driver::run`]. Other threads reach in through a [`Handle`].
#![cfg_attr(not(target_os = "linux"), allow(unused))]

mod batch;
mod carrier;
mod channels;
mod links;
mod marking;
mod refusals;

pub use batch::{Batch, Run};
pub use carrier::{Burst, Carrier, CarrierStats, Received, SendError};
pub use links::LinkChange;
pub use marking::{Mark, Marking};

#[cfg(target_os = "linux")]
mod bursts;
#[cfg(target_os = "linux")]
mod capture;
#[cfg(target_os = "linux")]
mod clock;
#[cfg(target_os = "linux")]
mod driver;
#[cfg(target_os = "linux")]
mod handle;
#[cfg(target_os = "linux")]
mod net;
#[cfg(target_os = "linux")]
mod poller;
#[cfg(target_os = "linux")]
mod qlog;
#[cfg(target_os = "linux")]
mod raw33;
#[cfg(target_os = "linux")]
mod seed;
#[cfg(target_os = "linux")]
mod shards;
mod shortage;
#[cfg(target_os = "linux")]
mod socket;
#[cfg(target_os = "linux")]
mod steering;
#[cfg(target_os = "linux")]
mod tun;
#[cfg(target_os = "linux")]
mod udp;
#[cfg(target_os = "linux")]
mod watch;

#[cfg(target_os = "linux")]
pub use {
    bursts::{Bursts, Written},
    capture::Capture,
    clock::Clock,
    driver::{App, Core, Driver},
    handle::Handle,
    net::Net,
    qlog::Qlog,
    raw33::RawCarrier,
    seed::random_seed,
    socket::Bind,
    tun::{Tun, TunConfig},
    udp::UdpCarrier,
    watch::HostWatch,
};
