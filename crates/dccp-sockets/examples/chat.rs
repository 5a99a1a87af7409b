//! A line-based text chat over one or several paths.
//!
//!     cargo run -p dccp-sockets --example chat -- listen 0.0.0.0:6511
//!     cargo run -p dccp-sockets --example chat -- connect 192.0.2.1:6511 192.168.1.2 10.64.0.9
//!
//! The addresses after the listener's are local addresses of this host, one per path. Without arguments, both
//! ends run in this process over two paths.

use dccp_sockets::{Connection, Listener, Options, Path};
use std::io::BufRead;
use std::sync::Arc;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn options() -> Options {
    Options::ccid(5).service("SC:chat").multipath(true)
}

fn over(locals: &[&str]) -> Result<Options> {
    locals.iter().try_fold(options(), |options, local| Ok(options.path(Path::from(local.parse()?))))
}

/// Prints messages and events, and sends the lines of standard input. At the end of input, finishes the
/// connection.
fn talk(connection: Connection) -> Result<()> {
    let connection = Arc::new(connection);
    let (listening, watching) = (connection.clone(), connection.clone());
    let printer = std::thread::spawn(move || {
        while let Ok(line) = listening.recv() {
            println!("> {}", String::from_utf8_lossy(&line));
        }
    });
    std::thread::spawn(move || watching.events().for_each(|event| eprintln!("{event:?}")));
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if !line.is_empty() {
            connection.send(line.as_bytes())?;
        }
    }
    connection.finish()?;
    printer.join().map_err(|_| "the printing thread panicked".into())
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", addr] => talk(Listener::bind(addr, options())?.accept()?),
        ["connect", addr, ref locals @ ..] => talk(Connection::connect(addr, over(locals)?)?),
        [] => {
            let listener = Listener::bind("127.0.0.1:0", options())?;
            let here = Connection::connect(listener.local_addr(), over(&["127.0.0.2", "127.0.0.3"])?)?;
            let there = listener.accept()?;
            here.send(b"hello over there")?;
            println!("> {}", String::from_utf8_lossy(&there.recv()?));
            there.send(b"hello over here")?;
            println!("> {}", String::from_utf8_lossy(&here.recv()?));
            println!("{:#?}", here.finish()?);
            Ok(())
        }
        _ => Err("usage: chat [listen ADDR:PORT | connect ADDR:PORT [LOCAL]...]".into()),
    }
}
