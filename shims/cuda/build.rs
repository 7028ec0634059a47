//! Gives the library the name by which programs ask for it, and keeps it loaded.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    // The session's threads and the handlers of fork and exit outlive a dlclose, and so must their
    // code.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
