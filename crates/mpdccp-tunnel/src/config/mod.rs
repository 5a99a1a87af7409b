//! The configuration file: what it may say (`file`, `values`, `remote`), and what does not go together (`checks`).

mod assign;
mod checks;
mod error;
mod file;
mod remote;
mod values;

pub use assign::Assign;
pub use error::ConfigError;
pub use file::{Config, JoinAdvertised, PathSpec, Peer, Role, Security};
pub use remote::{Host, HostPort, Remote, Remotes};
pub use values::{
    Addresses, AllOr, Cipher, Day, Encapsulation, Key, Mtu, OneOrMore, OuterDscp, OuterEcn, Prio, RateLimit,
    Secret, ServerNumber, ShardCount, Tcp, Volume, rate,
};

use error::Place;
pub(crate) use values::{path_mtu, prefixes, some_word, word};
