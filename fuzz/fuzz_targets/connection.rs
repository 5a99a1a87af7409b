//! `cargo +nightly fuzz run connection --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mpdccp_fuzz::connection(bytes));
