//! Linux I/O around the sans-IO core: encapsulations (DCCP in UDP, native IP protocol 33), the TUN device,
//! and the data-plane loop.
//!
//! A [`Driver`] owns one [`mpdccp_proto::Endpoint`], its sockets and one [`App`]. They run on the thread that
//! calls [`Driver::run`], or in another event loop ([`Driver::turn`]). Other threads use a [`Handle`].
//!
//! ```
//! # #[cfg(target_os = "linux")]
//! # fn main() -> std::io::Result<()> {
//! use dccp_net::{App, Bind, Core, Driver, UdpEncapsulation};
//! use mpdccp_proto::{Endpoint, ListenConfig, PeerFilter, PktInfo, SessionConfig, SessionId};
//! use mpdccp_units::Time;
//!
//! /// Sends back what it gets.
//! struct Echo;
//!
//! impl App for Echo {
//!     fn on_deliver(&mut self, core: &mut Core, now: Time, session: SessionId, data: Vec<u8>) {
//!         core.endpoint.send(now, session, data, PktInfo::default());
//!     }
//! }
//!
//! let driver = Driver::new(Endpoint::new(dccp_net::random_seed()?), |core| {
//!     let bind = Bind { addr: ([127, 0, 0, 1], 0).into(), interface: None };
//!     let encapsulation = UdpEncapsulation::new(bind)?;
//!     let socket = core.add_socket(encapsulation)?;
//!     core.endpoint.listen(ListenConfig {
//!         port: 5001,
//!         session: SessionConfig::default(),
//!         peers: vec![PeerFilter { id: 0, remotes: Vec::new() }],
//!         strangers: false,
//!         mtu: 1500,
//!         overhead: core.net.socket(socket).map_or(0, |encapsulation| encapsulation.overhead()),
//!         max_sessions: 100,
//!         max_sessions_per_source: 10,
//!     });
//!     Ok::<Echo, std::io::Error>(Echo)
//! })?;
//! // Another thread, or a signal, would do this later.
//! driver.handle().run(|core, _| core.stop());
//! driver.run()?;
//! # Ok(())
//! # }
//! # #[cfg(not(target_os = "linux"))]
//! # fn main() {}
//! ```
#![cfg_attr(not(target_os = "linux"), allow(unused))]

mod batch;
mod channels;
mod encapsulation;
mod links;
mod outer_mark;
mod refusals;
/// Encrypted channels and their keys. Without the feature `encryption`, no key or channel can be created.
#[cfg(feature = "encryption")]
pub use dccp_secure as secure;
#[cfg(not(feature = "encryption"))]
#[path = "no_secure.rs"]
pub mod secure;

pub use batch::{Batch, Run};
pub use channels::{Arrived, ChannelEvent, ChannelRoutes, Opened, is_channel};
pub use encapsulation::{Burst, Encapsulation, Received, SendError, SocketStats};
pub use links::LinkChange;
pub use outer_mark::{FixedDscp, Mark, Marking, data_of};

#[cfg(target_os = "linux")]
mod app;
#[cfg(target_os = "linux")]
mod bind;
#[cfg(all(target_os = "linux", feature = "tun"))]
mod bursts;
#[cfg(target_os = "linux")]
mod capture;
#[cfg(target_os = "linux")]
mod clock;
#[cfg(target_os = "linux")]
mod driver;
#[cfg(target_os = "linux")]
mod grant;
#[cfg(all(target_os = "linux", feature = "tun"))]
mod gro;
#[cfg(target_os = "linux")]
mod icmp;
#[cfg(target_os = "linux")]
mod net;
#[cfg(target_os = "linux")]
mod outgoing_interface;
#[cfg(target_os = "linux")]
mod poller;
#[cfg(target_os = "linux")]
#[cfg_attr(not(feature = "qlog"), path = "no_qlog.rs")]
mod qlog;
#[cfg(all(target_os = "linux", feature = "tun"))]
mod queue_selection;
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
mod socket_send;
#[cfg(all(target_os = "linux", feature = "tun"))]
mod tun;
#[cfg(all(target_os = "linux", feature = "tun"))]
mod tun_writer;
#[cfg(target_os = "linux")]
mod udp;
#[cfg(target_os = "linux")]
mod watch;

#[cfg(target_os = "linux")]
pub use {
    app::{App, Core, Handle},
    bind::Bind,
    capture::Capture,
    clock::Clock,
    driver::{Driver, Turn},
    grant::{grant_socket, grant_sockets_by, prepare_socket},
    net::Net,
    qlog::Qlog,
    raw33::RawEncapsulation,
    seed::random_seed,
    udp::UdpEncapsulation,
    watch::{HostWatch, interfaces_like},
};
#[cfg(all(target_os = "linux", feature = "tun"))]
pub use {
    bursts::Bursts,
    tun::{Tun, TunConfig},
    tun_writer::Written,
};
