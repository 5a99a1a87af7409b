//! The configuration file: its keys (`file`, `values`, `remote`), contradictions between them
//! (`contradictions`), suspicious values (`suspicious`), and the search for all errors (`diagnose`,
//! `suggestions`).

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
