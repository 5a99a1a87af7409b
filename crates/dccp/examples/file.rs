//! Sends a file: numbered pieces, and whatever got lost once more, until the receiver has them all.
//!
//!     cargo run -p dccp --example file -- receive 0.0.0.0:6511 copy.bin
//!     cargo run -p dccp --example file -- send 192.0.2.1:6511 original.bin
//!
//! Without arguments, a file of 2 MB goes from here to here.

use dccp::{Connection, Listener, Options, RecvError};
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How long a receiver waits for more before it asks for what is missing.
const PAUSE: Duration = Duration::from_millis(100);
/// Most pieces asked for at a time.
const ASK: usize = 256;
/// Most pieces of a file.
const MAX_PIECES: u32 = 1 << 24;

fn options() -> Options {
    Options::ccid(5).service("SC:file")
}

/// A piece: its number, how many there are, and its bytes.
fn send(connection: &Connection, file: &[u8]) -> Result<()> {
    let size = connection.max_datagram_size() - 8;
    let count = u32::try_from(file.len().div_ceil(size).max(1))?;
    let piece = |number: u32| -> Result<()> {
        let from = number as usize * size;
        let bytes = file.get(from..file.len().min(from + size)).unwrap_or_default();
        Ok(connection.send(&[&number.to_be_bytes(), &count.to_be_bytes(), bytes].concat())?)
    };
    (0..count).try_for_each(piece)?;
    // The receiver names what it misses, and closes when that is nothing.
    loop {
        match connection.recv() {
            Ok(missing) => {
                for number in missing.chunks_exact(4) {
                    let number = u32::from_be_bytes([number[0], number[1], number[2], number[3]]);
                    piece(number)?;
                }
            }
            Err(RecvError::Closed(end)) if end.is_orderly() => return Ok(()),
            Err(e) => return Err(e.into()),
        }
    }
}

fn receive(connection: &Connection) -> Result<Vec<u8>> {
    let mut pieces: Vec<Option<Vec<u8>>> = Vec::new();
    let mut missing = u32::MAX;
    while missing > 0 {
        match connection.recv_timeout(PAUSE) {
            Ok(datagram) => {
                let Some(([n0, n1, n2, n3, c0, c1, c2, c3], bytes)) = datagram.split_first_chunk() else {
                    continue;
                };
                let number = u32::from_be_bytes([*n0, *n1, *n2, *n3]);
                let count = u32::from_be_bytes([*c0, *c1, *c2, *c3]);
                if pieces.is_empty() && (1..=MAX_PIECES).contains(&count) {
                    pieces.resize(count as usize, None);
                    missing = count;
                }
                if let Some(piece @ None) = pieces.get_mut(number as usize) {
                    *piece = Some(bytes.to_vec());
                    missing -= 1;
                }
            }
            Err(RecvError::TimedOut) => {
                let holes = (0u32..).zip(&pieces).filter(|(_, piece)| piece.is_none());
                let ask: Vec<u8> = holes.take(ASK).flat_map(|(number, _)| number.to_be_bytes()).collect();
                if !ask.is_empty() {
                    connection.send(&ask)?;
                }
            }
            Err(e) => return Err(e.into()),
        }
    }
    connection.finish()?;
    Ok(pieces.into_iter().flatten().flatten().collect())
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["receive", addr, name] => {
            let file = receive(&Listener::bind(addr, options())?.accept()?)?;
            std::fs::write(name, &file)?;
            println!("{name}: {} bytes", file.len());
            Ok(())
        }
        ["send", addr, name] => {
            let connection = Connection::connect(addr, options())?;
            send(&connection, &std::fs::read(name)?)?;
            println!("{:#?}", connection.stats());
            Ok(())
        }
        [] => {
            let file: Vec<u8> =
                (0..2_000_000u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
            let listener = Listener::bind("127.0.0.1:0", options())?;
            let connection = Connection::connect(listener.local_addr(), options())?;
            let original = file.clone();
            let sender = std::thread::spawn(move || send(&connection, &original));
            let copy = receive(&listener.accept()?)?;
            sender.join().map_err(|_| "the sender panicked")??;
            println!("{} bytes, {}", copy.len(), if copy == file { "the same" } else { "not the same" });
            Ok(())
        }
        _ => Err("usage: file [receive ADDR:PORT FILE | send ADDR:PORT FILE]".into()),
    }
}
