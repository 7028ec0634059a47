//! Gives the library the name by which programs ask for it, and keeps it loaded.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnccl.so.2");
    // The session of CUDA tells its functions what has become of communicators.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
