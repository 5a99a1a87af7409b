//! `cargo +nightly fuzz run session --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mpdccp_fuzz::session(bytes));
