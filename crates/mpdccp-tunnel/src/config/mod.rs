//! Parses the configuration file. The keys are defined in `file`, `values` and `remote`. `contradictions`
//! finds settings that contradict each other, and `suspicious` finds unlikely values. `diagnose` and
//! `suggestions` report all errors in a file.

mod assign;
mod bypass;
mod contradictions;
mod diagnose;
mod encapsulations;
mod error;
mod file;
mod remote;
mod shards;
mod suggestions;
mod suspicious;
mod tls;
mod values;

pub use assign::Assign;
pub use bypass::{Bypass, Ports, Protocol, User};
pub use diagnose::{Remark, Review};
pub use error::ConfigError;
pub use file::{Config, JoinAdvertised, PathSpec, Peer, Role, Security};
pub use remote::{Host, HostPort, Remote, Remotes};
pub use tls::{Proxy, TlsCheck};
pub use values::{
    Addresses, AllOr, Cipher, Day, Encapsulation, Key, Mtu, OneOrMore, OuterDscp, OuterEcn, Prio, RateLimit,
    Routes, Secret, ServerNumber, ShardCount, Tcp, Volume, rate,
};

pub(crate) use tls::tls_port;
pub(crate) use values::{path_mtu, prefixes, some_word, word};
