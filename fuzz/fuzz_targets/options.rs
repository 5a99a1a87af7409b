//! Any bytes are an option area, and what was read from it is written back to the same meaning.
//! Run with `cargo +nightly fuzz run options`.
#![no_main]

use dccp_wire::{MpOption, Opt, OptionBuf, Options, ack_vector};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut options = Options::new(bytes);
    let mut buf = OptionBuf::new();
    while let Some(option) = options.next() {
        options.culprit();
        let Ok(option) = option else {
            assert!(options.next().is_none());
            return;
        };
        match option {
            Opt::AckVector(_, cells) => {
                let again: Vec<u8> = ack_vector::runs(cells).map(|(s, n)| ack_vector::cell(s, n)).collect();
                assert_eq!(again, cells);
            }
            Opt::Mp(MpOption::Key { keys, .. }) => MpOption::keys(keys).for_each(drop),
            Opt::Mp(MpOption::Confirm(inner)) => Options::new(inner).for_each(drop),
            _ => {}
        }
        buf.clear();
        assert!(buf.push(&option));
        assert_eq!(Options::new(buf.as_bytes()).next(), Some(Ok(option)));
    }
});
