//! `cargo +nightly fuzz run streams --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mpdccp_fuzz::streams(bytes));
