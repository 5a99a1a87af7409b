//! `cargo +nightly fuzz run endpoint --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mpdccp_fuzz::endpoint(bytes));
