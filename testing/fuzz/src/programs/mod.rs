//! Programs whose client is fuzzed, and whose sessions are recorded. Each family of calls is a
//! program, and all of them after each other are one. They go on whatever fails, as a program may,
//! and stay within what they were given.

pub mod cuda;
pub mod opencl;

/// Makes a server that of this process, before the program begins: with one connection, given up at
/// once when it is lost.
pub fn use_server(address: &str) {
    let settings = [
        ("BUSBAR_SERVER", address),
        ("BUSBAR_CONFIG", "/nonexistent"),
        ("BUSBAR_SHM", "0"),
        ("BUSBAR_SIDE", "0"),
        ("BUSBAR_CONNECT_TIMEOUT", "1"),
        ("BUSBAR_RESUME_TIMEOUT", "0.1"),
    ];
    // SAFETY: the server's threads read no variables.
    unsafe {
        for (name, value) in settings {
            std::env::set_var(name, value);
        }
        // Whose worker this process may be, too: its clients are none of a worker's drivers.
        std::env::remove_var("BUSBAR_IN_WORKER");
    }
}
