//! The sender of a voice call. It sends one frame every 20 ms, and adapts the frame size to the rate that
//! congestion control reports. The listener counts the frames it receives.
//!
//!     cargo run -p dccp-sockets --example voice -- listen 0.0.0.0:6511
//!     cargo run -p dccp-sockets --example voice -- call 192.0.2.1:6511 4    (CCID: 3, 4 TFRC; 5 BBR)
//!
//! Without arguments, both ends run in this process for two seconds.

use dccp_sockets::{Connection, Listener, Options, SendError};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const FRAME: Duration = Duration::from_millis(20);
/// Lowest, highest and initial bit rate of the codec, in bit/s.
const RATES: std::ops::RangeInclusive<u64> = 8_000..=256_000;
const START: u64 = 32_000;

fn options(ccid: u8) -> Options {
    // A frame that cannot be sent now is useless later, so keep the queue short.
    Options::ccid(ccid).service("SC:talk").queue(1).queue_time(FRAME)
}

fn call(addr: &str, ccid: u8, frames: u32) -> Result<()> {
    let connection = Connection::connect(addr, options(ccid))?;
    let mut rate = START;
    let mut skipped = 0;
    let begin = Instant::now();
    for number in 0..frames {
        std::thread::sleep((FRAME * number).saturating_sub(begin.elapsed()));
        let bytes = rate * FRAME.as_millis() as u64 / 8_000;
        let frame = vec![0; (bytes as usize).clamp(1, connection.max_datagram_size())];
        match connection.try_send(&frame) {
            Ok(()) => {}
            Err(SendError::Full) => {
                // The queue is full, so skip this frame and halve the rate.
                skipped += 1;
                rate = (rate / 2).max(*RATES.start());
            }
            Err(e) => return Err(e.into()),
        }
        if number % 50 == 49 {
            // Increase the rate in small steps, but never above the capacity of the path.
            let stats = connection.stats();
            // The measured rate is known only while the path limits the sender. At other times, use the rate
            // that congestion control allows.
            let room = stats.rate.unwrap_or(stats.allowed).bps() * 8 / 10;
            rate = (rate + rate / 4).min(room).clamp(*RATES.start(), *RATES.end());
            println!("{} kbit/s, {skipped} frames skipped, {} packets lost", rate / 1_000, stats.lost);
        }
    }
    connection.finish()?;
    Ok(())
}

fn listen(listener: &Listener) -> Result<()> {
    let connection = listener.accept()?;
    let mut frames = 0;
    while connection.recv().is_ok() {
        frames += 1;
    }
    println!("received {frames} frames");
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", addr] => listen(&Listener::bind(addr, options(5))?),
        ["call", addr, ccid] => call(addr, ccid.parse()?, u32::MAX),
        [] => {
            let listener = Listener::bind("127.0.0.1:0", options(5))?;
            let addr = listener.local_addr().to_string();
            let callee = std::thread::spawn(move || listen(&listener));
            call(&addr, 5, 100)?;
            callee.join().map_err(|_| "the listener panicked")?
        }
        _ => Err("usage: voice [listen ADDR:PORT | call ADDR:PORT CCID]".into()),
    }
}
