//! Runs the driver as a task in the runtime, so that datagrams do not have to pass through another thread.

use crate::runtime::Streams;
use crate::runtime::host::{Hosted, on_a_thread};
use crate::signal::lock;
use dccp_net::{Driver, Turn};
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;

/// Runs a driver in the current runtime, or on a thread if there is none.
pub(super) fn run(driver: Driver<Streams>) -> io::Result<Option<Hosted>> {
    let Ok(runtime) = Handle::try_current() else { return on_a_thread(driver) };
    let descriptor = driver.descriptor().try_clone_to_owned()?;
    #[allow(
        deprecated,
        reason = "the replacement is unsafe because a type could change its descriptor; OwnedFd cannot"
    )]
    let descriptor = AsyncFd::with_interest(descriptor, Interest::READABLE)?;
    let driver = Arc::new(Mutex::new(driver));
    let hosted = Arc::downgrade(&driver);
    runtime.spawn(turns(driver, descriptor));
    Ok(Some(hosted))
}

async fn turns(driver: Arc<Mutex<Driver<Streams>>>, descriptor: AsyncFd<OwnedFd>) {
    while let Ok(mut ready) = descriptor.readable().await {
        loop {
            let turn = lock(&driver).turn();
            match turn {
                // Let the application's tasks respond before the next turn.
                Ok(Turn::Busy) => later().await,
                Ok(Turn::Idle) => break,
                Ok(Turn::Over) => return,
                Err(e) => return tracing::error!("the connections ended, because their task failed: {e}"),
            }
        }
        ready.clear_ready();
    }
}

/// Yields once, so that other tasks can run.
async fn later() {
    let mut waited = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
