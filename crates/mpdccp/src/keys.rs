//! `mpdccp genkey | pubkey | genpsk`: keys as WireGuard's tools print them.

use crate::error::Error;
use dccp_secure::{PresharedKey, PrivateKey};
use std::io::{IsTerminal, Read};
use std::process::ExitCode;
use zeroize::Zeroizing;

pub(crate) const EXAMPLES: &str = "Examples:
  (umask 077; mpdccp genkey > /etc/mpdccp/private.key)
  mpdccp pubkey < /etc/mpdccp/private.key
  mpdccp genkey | tee private.key | mpdccp pubkey";

/// Prints a new private key.
pub(crate) fn genkey() -> ExitCode {
    finish(random().map(|bytes| PrivateKey::from_random(bytes).to_base64()))
}

/// Prints a new preshared key.
pub(crate) fn genpsk() -> ExitCode {
    finish(random().map(|bytes| PresharedKey::from_random(bytes).to_base64()))
}

/// Prints the public key of the private key on standard input.
pub(crate) fn pubkey() -> ExitCode {
    finish(public())
}

fn public() -> Result<Zeroizing<String>, Error> {
    let mut input = std::io::stdin().lock();
    if input.is_terminal() {
        return Err(Error::usage("pubkey reads a private key from standard input: mpdccp pubkey < FILE"));
    }
    let mut text = Zeroizing::new(String::new());
    input.read_to_string(&mut text).map_err(|e| Error::usage(format!("standard input: {e}")))?;
    let key: PrivateKey = text.parse().map_err(|e| Error::usage(format!("standard input: {e}")))?;
    Ok(Zeroizing::new(key.public().to_string()))
}

fn random() -> Result<[u8; 32], Error> {
    dccp_net::random_seed().map_err(|e| Error::runtime(format!("the system gives no randomness: {e}")))
}

fn finish(key: Result<Zeroizing<String>, Error>) -> ExitCode {
    match key {
        Ok(key) => {
            println!("{}", *key);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("mpdccp: {error}");
            error.code
        }
    }
}
