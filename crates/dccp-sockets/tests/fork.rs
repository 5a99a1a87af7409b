//! Tests that calls in a forked process return errors, because a forked process has no data thread. This test
//! is a separate program, because it forks.
#![expect(unsafe_code, reason = "fork(2)")]

use dccp_sockets::{
    AcceptError, CcidError, ConnectError, Connector, FinishError, Listener, Options, Path, PresharedKey,
    PrivateKey, RecvError, SendError,
};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::time::Duration;

/// Returns the result of a future that is ready at once.
#[cfg(feature = "tokio")]
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(result) => Some(result),
        std::task::Poll::Pending => None,
    }
}

#[test]
fn a_fork_gets_errors_and_the_parent_goes_on() {
    // Only the child may make the descriptors readable below, not a new packet size or the first path.
    let options = Options::default().mtu_probing(false);
    let listener = Listener::bind("127.0.0.1:0", options.clone()).unwrap();
    let connector = Connector::new(options).unwrap();
    let here = connector.connect(listener.local_addr()).unwrap();
    let there = listener.accept().unwrap();
    there.send(b"the path is up").unwrap();
    here.recv().unwrap();
    #[cfg(feature = "tokio")]
    let task = {
        let connector = dccp_sockets::tokio::Connector::new(Options::default()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(connector.connect(listener.local_addr())).unwrap()
    };
    #[cfg(feature = "tokio")]
    let _accepted = listener.accept().unwrap();
    let fds = [listener.descriptor().unwrap(), here.descriptor().unwrap()]
        .map(|fd| fd.try_clone_to_owned().unwrap());
    here.ready();
    let (addr, key) = (listener.local_addr(), PrivateKey::from_random([1; 32]).public());
    // SAFETY: the child calls only functions of this crate that take no lock in a fork. Then it exits.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            // This alarm ends the child if a call waits for the thread that it does not have.
            nix::unistd::alarm::set(20);
            let right = here.send(b"lost") == Err(SendError::Forked)
                && here.try_send(b"lost") == Err(SendError::Forked)
                && here.recv() == Err(RecvError::Forked)
                && here.events().next().is_none()
                && here.ready().closed
                && matches!(here.opened(Duration::MAX), Some(Err(ConnectError::Forked)))
                && matches!(here.finish(), Err(FinishError(_)))
                && here.set_ccid(2) == Err(CcidError::Forked)
                && matches!(here.add_path(Path::on("lo")), Err(ConnectError::Forked))
                && matches!(listener.accept(), Err(AcceptError::Forked))
                && matches!(listener.send_listen(addr, 5001), Err(ConnectError::Forked))
                && matches!(listener.add_peer(key, PresharedKey::default()), Err(ConnectError::Forked))
                && matches!(listener.remove_peer(key), Err(ConnectError::Forked))
                && matches!(connector.connect(listener.local_addr()), Err(ConnectError::Forked));
            #[cfg(feature = "tokio")]
            let right = right
                && at_once(task.send(b"lost")) == Some(Err(SendError::Forked))
                && at_once(task.recv()) == Some(Err(RecvError::Forked))
                && at_once(task.recv_many(&mut Vec::new(), 1)) == Some(Err(RecvError::Forked))
                && at_once(task.event()) == Some(None)
                && matches!(at_once(task.finish()), Some(Err(FinishError(_))));
            here.close();
            drop((here, there, connector, listener));
            // SAFETY: this ends the process without running destructors of the test or of its harness.
            unsafe { nix::libc::_exit(if right { 0 } else { 1 }) }
        }
        ForkResult::Parent { child } => {
            assert_eq!(waitpid(child, None), Ok(WaitStatus::Exited(child, 0)));
        }
    }
    // The child shares these descriptors with the parent.
    let mut polled = fds.each_ref().map(|fd| PollFd::new(fd, PollFlags::IN));
    assert_eq!(poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0));
    here.send(b"still here").unwrap();
    assert_eq!(there.recv().unwrap(), b"still here");
}
