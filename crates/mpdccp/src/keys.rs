//! `mpdccp genkey`, `pubkey` and `genpsk` print keys in the format of WireGuard's tools.

use crate::error::{Error, remedy};
use dccp_secure::{PresharedKey, PrivateKey};
use std::io::{ErrorKind, IsTerminal, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use zeroize::Zeroizing;

pub(crate) const EXAMPLES: &str = "Examples:
  (umask 077; mpdccp genkey > /etc/mpdccp/private.key)
  mpdccp pubkey < /etc/mpdccp/private.key
  (umask 077; mpdccp genkey | tee private.key | mpdccp pubkey)";

/// Prints a new private key.
pub(crate) fn genkey() -> Result<(), Error> {
    println!("{}", *PrivateKey::from_random(random()?).to_base64());
    Ok(())
}

/// Prints a new preshared key.
pub(crate) fn genpsk() -> Result<(), Error> {
    println!("{}", *PresharedKey::from_random(random()?).to_base64());
    Ok(())
}

/// Reads a private key from standard input and prints its public key.
pub(crate) fn pubkey() -> Result<(), Error> {
    let mut input = std::io::stdin().lock();
    if input.is_terminal() {
        return Err(Error::usage("pubkey reads a private key from standard input: mpdccp pubkey < FILE"));
    }
    let mut text = Zeroizing::new(String::new());
    input.read_to_string(&mut text).map_err(|e| Error::usage(format!("cannot read standard input: {e}")))?;
    let key: PrivateKey = text.parse().map_err(|e| Error::usage(format!("standard input: {e}")))?;
    println!("{}", key.public());
    Ok(())
}

/// Reads a secret from a file that only its owner may read. `name` is the key or flag that refers to the
/// file.
pub(crate) fn read_secret(name: &str, path: &Path) -> Result<Zeroizing<String>, Error> {
    let shown = path.display();
    let cannot =
        |e: std::io::Error| Error::usage(format!("{name}: cannot read {shown}: {e}{}", remedy(&e, path)));
    let mut file = std::fs::File::open(path).map_err(cannot)?;
    let metadata = file.metadata().map_err(cannot)?;
    if metadata.is_dir() {
        return Err(cannot(ErrorKind::IsADirectory.into()));
    }
    let mode = metadata.mode();
    if mode & 0o077 != 0 {
        return Err(Error::usage(format!(
            "{name}: other users can read {shown} (mode {:03o}); run: chmod 600 {shown}",
            mode & 0o777
        )));
    }
    let mut text = Zeroizing::new(String::new());
    file.read_to_string(&mut text).map_err(cannot)?;
    Ok(text)
}

pub(crate) fn random() -> Result<[u8; 32], Error> {
    dccp_net::random_seed()
        .map_err(|e| Error::runtime(format!("cannot get random bytes from the system: {e}")))
}
