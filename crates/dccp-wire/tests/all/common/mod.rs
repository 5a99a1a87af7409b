//! Captures and tshark, for the tests that compare against them.
#![allow(dead_code)]

pub(crate) mod ip;
pub(crate) mod meaning;
pub(crate) mod pcap;
pub(crate) mod tshark;
