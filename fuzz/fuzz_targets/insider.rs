//! `cargo +nightly fuzz run insider --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mpdccp_fuzz::insider(bytes));
