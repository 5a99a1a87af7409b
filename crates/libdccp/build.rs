//! Names the ABI in the library: programs linked against one of another number do not start with it.

fn main() {
    // cargo-c names it itself.
    if std::env::var_os("CARGO_FEATURE_CAPI").is_none() {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libdccp.so.0");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
