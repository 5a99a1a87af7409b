//! A server that returns every datagram to its sender, and a client.
//!
//!     cargo run -p dccp-sockets --example echo -- listen 0.0.0.0:6511
//!     cargo run -p dccp-sockets --example echo -- connect 192.0.2.1:6511
//!
//! Without arguments, both ends run in this process.

use dccp_sockets::{Connection, Listener, Options};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn options() -> Options {
    Options::ccid(5).service("SC:echo")
}

fn serve(listener: &Listener) -> Result<()> {
    loop {
        let connection = listener.accept()?;
        std::thread::spawn(move || {
            while let Ok(datagram) = connection.recv() {
                if connection.send(&datagram).is_err() {
                    break;
                }
            }
        });
    }
}

fn ask(addr: &str) -> Result<()> {
    let connection = Connection::connect(addr, options())?;
    for number in 1..=5 {
        let sent = Instant::now();
        connection.send(format!("datagram {number}").as_bytes())?;
        let answer = connection.recv_timeout(Duration::from_secs(1))?;
        println!("{} came back after {:?}", String::from_utf8_lossy(&answer), sent.elapsed());
    }
    println!("{:#?}", connection.finish()?);
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", addr] => serve(&Listener::bind(addr, options())?),
        ["connect", addr] => ask(addr),
        [] => {
            let listener = Listener::bind("127.0.0.1:0", options())?;
            let addr = listener.local_addr().to_string();
            std::thread::spawn(move || serve(&listener));
            ask(&addr)
        }
        _ => Err("usage: echo [listen ADDR:PORT | connect ADDR:PORT]".into()),
    }
}
