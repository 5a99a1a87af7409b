//! Sets the ABI number of the library. A program that was linked with another ABI number does not start with
//! it.

fn main() {
    // cargo-c sets the name of the library itself.
    if std::env::var_os("CARGO_FEATURE_CAPI").is_none() {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libdccp.so.0");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
