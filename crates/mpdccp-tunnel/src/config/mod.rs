//! The configuration file: what it may say (`file`, `values`, `remote`), and what does not go together (`checks`).

mod checks;
mod file;
mod remote;
mod values;

pub use file::{Assign, Config, ConfigError, JoinAdvertised, PathSpec, Peer, Role, Security};
pub use remote::{Host, HostPort, Remote, Remotes};
pub use values::{
    Addresses, AllOr, Carrier, Cipher, Day, Key, Mtu, OneOrMore, OuterDscp, OuterEcn, Prio, RateLimit,
    Secret, ServerNumber, ShardCount, Volume, rate,
};

pub(crate) use values::{path_mtu, prefixes, word};
