//! A server with many clients. Each client receives a greeting, and then the sum of the bytes it has sent.
//!
//!     cargo run -p dccp-sockets --features tokio --example tokio_server -- 0.0.0.0:6511
//!
//! Without arguments, 1,000 clients run in this process.

use dccp_sockets::Options;
use dccp_sockets::tokio::{Connection, Connector, Listener};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const CLIENTS: usize = 1_000;

fn options() -> Options {
    Options::ccid(5).service("SC:sum").backlog(CLIENTS)
}

async fn serve(listener: Listener) -> Result<()> {
    loop {
        let connection = listener.accept().await?;
        tokio::spawn(async move {
            while let Ok(data) = connection.recv().await {
                let sum: u64 = data.iter().map(|byte| u64::from(*byte)).sum();
                if connection.send(&sum.to_be_bytes()).await.is_err() {
                    break;
                }
            }
        });
    }
}

async fn ask(connection: Connection, bytes: &[u8]) -> Result<u64> {
    connection.send(bytes).await?;
    let answer = connection.recv().await?;
    connection.finish().await?;
    Ok(u64::from_be_bytes(answer.as_slice().try_into()?))
}

#[tokio::main]
async fn main() -> Result<()> {
    if let Some(addr) = std::env::args().nth(1) {
        return serve(Listener::bind(addr, options()).await?).await;
    }
    let listener = Listener::bind("127.0.0.1:0", options()).await?;
    let addr = listener.local_addr();
    tokio::spawn(serve(listener));
    let connector = Connector::new(options())?;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let connector = connector.clone();
            tokio::spawn(async move { ask(connector.connect(addr).await?, &[1, 2, 3]).await })
        })
        .collect();
    let mut answered = 0;
    for client in clients {
        match client.await? {
            Ok(6) => answered += 1,
            Ok(sum) => eprintln!("a client received {sum}"),
            Err(e) => eprintln!("a client failed: {e}"),
        }
    }
    println!("{answered} of {CLIENTS} clients received their answer");
    Ok(())
}
