//! `cargo +nightly fuzz run wire --features libfuzzer`
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mpdccp_fuzz::wire(bytes));
