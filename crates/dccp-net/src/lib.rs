//! Linux I/O around the sans-IO core: encapsulations (DCCP in UDP, native IP protocol 33), the TUN device,
//! and the data-plane loop.
//!
//! A [`Driver`] owns one [`mpdccp_proto::Endpoint`], its sockets and one [`App`]. They run on the thread that
//! calls [`Driver::run`], or in another event loop ([`Driver::turn`]). Other threads use a [`Handle`].
//!
//! ```
//! # fn main() -> std::io::Result<()> {
//! use dccp_net::{App, Bind, Core, Driver, UdpEncapsulation};
//! use mpdccp_proto::{Endpoint, ListenConfig, PktInfo, SessionConfig, SessionId};
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
//!     let overhead = core.net.socket(socket).map_or(0, |encapsulation| encapsulation.overhead());
//!     core.endpoint.listen(ListenConfig {
//!         max_sessions_per_source: 10,
//!         ..ListenConfig::for_anyone(5001, SessionConfig::default(), overhead, 100)
//!     });
//!     Ok::<Echo, std::io::Error>(Echo)
//! })?;
//! // Another thread, or a signal, would do this later.
//! driver.handle().run(|core, _| core.stop());
//! driver.run()?;
//! # Ok(())
//! # }
//! ```

mod app;
mod batch;
mod bind;
#[cfg(feature = "tun")]
mod bursts;
mod capture;
mod channels;
mod clock;
mod driver;
mod encapsulation;
mod file;
mod grant;
#[cfg(feature = "tun")]
mod gro;
mod icmp;
mod links;
mod net;
mod outer_mark;
mod outgoing_interface;
mod poller;
#[cfg_attr(not(feature = "qlog"), path = "no_qlog.rs")]
mod qlog;
#[cfg(feature = "tun")]
mod queue_selection;
mod raw33;
mod refusals;
mod seed;
mod shards;
mod shortage;
mod socket;
mod socket_send;
#[cfg(feature = "tun")]
mod tun;
#[cfg(feature = "tun")]
mod tun_writer;
mod udp;
mod watch;
mod window_clamp;

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
pub use {
    app::{App, Core, Handle},
    bind::{Bind, canonical, with_port},
    capture::Capture,
    clock::Clock,
    driver::{Driver, Turn},
    file::private_file,
    grant::{grant_socket, grant_sockets_by, prepare_socket},
    net::Net,
    qlog::Qlog,
    raw33::RawEncapsulation,
    seed::random_seed,
    udp::UdpEncapsulation,
    watch::{HostWatch, has_ipv6, interfaces_like},
    window_clamp::{receive_rtt, set_window_clamp},
};
#[cfg(feature = "tun")]
pub use {
    bursts::Bursts,
    tun::{Tun, TunConfig},
    tun_writer::Written,
};
