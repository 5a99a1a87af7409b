//! A public game server with encryption, which accepts clients that it does not know in advance. `game serve
//! ADDR:PORT` runs the server, and `game play ADDR:PORT SERVER_KEY` runs a player. Without arguments, the
//! server and a few players run in this process.
//!
//! The keys identify the players, so a player who returns still has their score.

use dccp_sockets::{Connection, Listener, Options, PrivateKey, PublicKey, SendPolicy};
use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// How often every player receives all positions.
const TICK: Duration = Duration::from_millis(50);

fn options() -> Options {
    // Only the newest position is useful, so older ones are dropped.
    Options::ccid(5).service("SC:game").queue(2).send_policy(SendPolicy::DropOldest)
}

fn random_key() -> Result<PrivateKey> {
    let mut bytes = [0; 32];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(PrivateKey::from_random(bytes))
}

fn serve(listener: &Listener, ticks: usize) -> Result<()> {
    let mut scores: HashMap<PublicKey, u32> = HashMap::new();
    let mut players: Vec<(PublicKey, Connection)> = Vec::new();
    for _ in 0..ticks {
        while let Ok(connection) = listener.try_accept() {
            let key = connection.peer_key().ok_or("the peer has no key, although the listener has one")?;
            println!("{key} plays with {} points", scores.entry(key).or_default());
            players.push((key, connection));
        }
        players.retain(|(_, player)| player.end().is_none());
        for (key, player) in &players {
            while let Ok(moved) = player.try_recv() {
                *scores.entry(*key).or_default() += u32::from(moved == b"hit");
            }
        }
        let world: Vec<String> = players.iter().map(|(key, _)| format!("{key} {}", scores[key])).collect();
        for (_, player) in &players {
            // Ignore the error, because a player on a slow line must not delay the others.
            let _ = player.try_send(world.join("\n").as_bytes());
        }
        std::thread::sleep(TICK);
    }
    Ok(())
}

fn play(addr: &str, server: PublicKey, key: PrivateKey, moves: usize) -> Result<String> {
    let player = Connection::connect(addr, options().key(key).peer(server))?;
    let mut world = String::new();
    for _ in 0..moves {
        player.send(b"hit")?;
        world = String::from_utf8_lossy(&player.recv_timeout(Duration::from_secs(5))?).into_owned();
    }
    player.finish()?;
    Ok(world)
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let key = random_key()?;
    let listen = |addr| Listener::bind(addr, options().key(key.clone()).any_peer(true));
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", addr] => {
            println!("the server's key is {}", key.public());
            serve(&listen(addr)?, usize::MAX)
        }
        ["play", addr, server] => {
            println!("{}", play(addr, server.parse()?, key, 20)?);
            Ok(())
        }
        [] => {
            let listener = listen("127.0.0.1:0")?;
            let (addr, server) = (listener.local_addr().to_string(), key.public());
            let players = std::thread::spawn(move || -> Result<()> {
                let key = random_key()?;
                play(&addr, server, key.clone(), 5)?;
                play(&addr, server, random_key()?, 5)?;
                println!("at the end:\n{}", play(&addr, server, key, 5)?);
                Ok(())
            });
            serve(&listener, 40)?;
            players.join().map_err(|_| "a player panicked")?
        }
        _ => Err("usage: game [serve ADDR:PORT | play ADDR:PORT SERVER_KEY]".into()),
    }
}
