//! Tests that the data threads leave signals to the program. This test is a separate program, because it
//! looks at the threads of its process.

use dccp_sockets::{Connection, Listener, Options};
use nix::sys::signal::{SigSet, Signal};
use std::fs::read_to_string;

#[test]
fn data_threads_take_no_signals_and_the_program_keeps_its_own() {
    let before = SigSet::thread_get_mask().unwrap();
    let listener = Listener::bind("127.0.0.1:0", Options::default()).unwrap();
    let _connection = Connection::connect(listener.local_addr(), Options::default()).unwrap();
    assert_eq!(SigSet::thread_get_mask().unwrap(), before);
    let mut threads = 0;
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().path();
        if read_to_string(task.join("comm")).unwrap() != "dccp\n" {
            continue;
        }
        threads += 1;
        let status = read_to_string(task.join("status")).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
        let blocks = |signal: Signal| mask >> (signal as i32 - 1) & 1 == 1;
        assert!(blocks(Signal::SIGTERM) && blocks(Signal::SIGUSR1) && !blocks(Signal::SIGSEGV), "{mask:x}");
    }
    assert_eq!(threads, 2);
}
