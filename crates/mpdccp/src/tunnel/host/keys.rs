//! Reads the keys of the configuration and its key files, and gives them to the secure channels.

use crate::error::{Error, remedy};
use crate::keys::read_secret;
use crate::tunnel::host::routes::forwards;
use dccp_net::{Clock, Core, private_file};
use dccp_secure::{
    Aead, Channels, HostFacts, KeyError, OVERHEAD, PresharedKey, PrivateKey, PublicKey, Settings,
};
use mpdccp_tunnel::config::{Config, Peer, Secret, Security};
use mpdccp_tunnel::{Keys, Tunnel};
use mpdccp_units::Duration;
use std::fs::OpenOptions;
use std::path::Path;
use std::str::FromStr;
use std::time::SystemTime;

/// Returns the number of bytes that encryption adds to each packet.
pub(crate) fn overhead(cfg: &Config) -> u16 {
    match cfg.security {
        Security::Noise => OVERHEAD as u16,
        Security::None => 0,
    }
}

/// Tells the channels the time. On a server, also sets the facts for clients that run `tunnel doctor`: the
/// server's clock, and whether it forwards packets. Call this repeatedly, because the facts may change. For
/// example, a router without a battery sets its clock only once it has a connection.
pub(crate) fn set_facts(core: &mut Core, cfg: &Config) {
    let at = core.clock.now();
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let Some(channels) = core.net.channels_mut() else { return };
    channels.set_clock(at, unix);
    if cfg.is_client() {
        return;
    }
    let forwards = [true, false].map(forwards);
    channels.set_facts(HostFacts { unix, at, forwards });
}

/// Puts secure channels between sockets and sessions. A peer's number is its position in the configuration.
pub(crate) fn secure(
    core: &mut Core,
    cfg: &Config,
    keys: Keys,
    shard: u8,
    tunnel: &mut Tunnel,
) -> Result<(), Error> {
    let Some(private_key) = keys.own else { return Ok(()) };
    let aeads = cfg.ciphers.as_ref().map(|list| list.iter().map(|cipher| cipher.0).collect());
    let wall = tunnel.handshake_time(Duration::from_nanos(Clock.wall_nanos()));
    let unix = wall.saturating_sub(Duration::from_nanos(core.clock.now().as_nanos()));
    let mut channels = Channels::new(Settings {
        server: cfg.server_number.0,
        shard,
        aeads: aeads.unwrap_or_else(Aead::preferred),
        ..Settings::new(private_key, !cfg.is_client(), unix, dccp_net::random_seed()?)
    });
    if cfg.shards.0 > 1 {
        channels.share(cfg.shards.0);
    }
    for (number, key) in (0u32..).zip(keys.peers) {
        if let Some((key, preshared)) = key {
            channels.add_peer(number, key, preshared);
        }
    }
    if let Some(path) = &cfg.keylog {
        let cannot = |e: std::io::Error| {
            Error::usage(format!("keylog: cannot write {}: {e}{}", path.display(), remedy(&e, path)))
        };
        core.net.keylog = Some(private_file(OpenOptions::new().append(true), path).map_err(cannot)?);
        channels.log_keys();
        tracing::warn!("anyone who can read {} can decrypt all traffic", path.display());
    }
    core.net.secure(channels);
    Ok(())
}

fn private_key(cfg: &Config) -> Result<PrivateKey, Error> {
    secret("", "private_key", &cfg.private_key, cfg.private_key_file.as_deref())?
        .ok_or_else(|| Error::usage("private_key is missing"))
}

/// Reads the keys of the configuration, including all key files.
pub(crate) fn read(cfg: &Config) -> Result<Keys, Error> {
    if cfg.security == Security::None {
        return Ok(Keys { own: None, peers: vec![None; cfg.peers.len()] });
    }
    let private = private_key(cfg)?;
    let peers = cfg.peers.iter().map(|peer| of_peer(&private, peer.get_ref()));
    let peers = peers.collect::<Result<_, _>>()?;
    Ok(Keys { own: Some(private), peers })
}

/// Returns all errors in the keys, each with the name of its configuration key.
pub(crate) fn check(cfg: &Config) -> Vec<(String, String)> {
    if cfg.security == Security::None {
        return Vec::new();
    }
    let file = if cfg.private_key_file.is_some() { "_file" } else { "" };
    let private = match private_key(cfg) {
        Ok(private) => private,
        Err(e) => return vec![(format!("private_key{file}"), e.to_string())],
    };
    let peers = cfg.peers.iter().map(|peer| peer.get_ref()).enumerate();
    let wrong = peers.filter_map(|(i, peer)| {
        let e = of_peer(&private, peer).err()?.to_string();
        let key = ["preshared_key_file", "preshared_key"].into_iter().find(|key| e.contains(key));
        Some((format!("peer.{i}.{}", key.unwrap_or("public_key")), e))
    });
    wrong.collect()
}

/// Reads the keys of a peer.
fn of_peer(private: &PrivateKey, peer: &Peer) -> Result<Option<(PublicKey, PresharedKey)>, Error> {
    let Some(key) = peer.public_key else { return Ok(None) };
    let wrong = if private.is_written_as(&key.0) {
        "public_key is the secret private key of this end; give the public key of the other end"
    } else if key.0 == private.public() {
        "public_key is the public key of this end; give the public key of the other end"
    } else {
        return Ok(Some((key.0, preshared(peer)?)));
    };
    Err(Error::usage(format!("peer `{}`: {wrong}", peer.name)))
}

fn preshared(peer: &Peer) -> Result<PresharedKey, Error> {
    let whose = format!("peer `{}`: ", peer.name);
    let key = secret(&whose, "preshared_key", &peer.preshared_key, peer.preshared_key_file.as_deref())?;
    Ok(key.unwrap_or_default())
}

/// Reads a secret from the configuration or from a separate file.
fn secret<T: FromStr<Err = KeyError>>(
    whose: &str,
    name: &str,
    text: &Option<Secret>,
    file: Option<&Path>,
) -> Result<Option<T>, Error> {
    let (text, place) = match (text, file) {
        (Some(text), _) => (text.0.clone(), name.to_string()),
        (None, Some(file)) => {
            (read_secret(&format!("{whose}{name}_file"), file)?, format!("{name}_file {}", file.display()))
        }
        (None, None) => return Ok(None),
    };
    text.parse().map(Some).map_err(|e| Error::usage(format!("{whose}{place}: {e}")))
}
