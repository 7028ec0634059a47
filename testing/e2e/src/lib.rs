//! Tests of the whole: a real `busbar serve`, programs that load the real shim, and the simulated
//! driver beneath, where no GPU is.
//!
//! [`tree`] is where the binaries are, [`server`] and [`guarded`] start and stop servers,
//! [`program`] runs programs natively on the simulated driver or through a server, [`proc`] looks
//! at processes, [`http`] speaks HTTP with a server, [`authority`] signs certificates, [`opencl`]
//! holds the same for OpenCL programs, [`kills`] kills programs and looks how soon what they held
//! is free, and [`driver`] and [`random`] and [`quota`] are what `driver_program` is made of.

pub mod authority;
pub mod checkpoint;
pub mod driver;
pub mod guarded;
pub mod hostile;
pub mod http;
pub mod kills;
pub mod opencl;
pub mod proc;
pub mod program;
pub mod quota;
pub mod random;
pub mod server;
pub mod tree;

use std::time::{Duration, Instant};

/// How long a test waits for what must happen. It bounds a failing test, it measures nothing.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Seconds that a test cuts a link for: `BUSBAR_CUT`, or else `default`.
pub fn cut(default: u64) -> Duration {
    let said = std::env::var("BUSBAR_CUT")
        .ok()
        .and_then(|v| v.parse().ok());
    Duration::from_secs(said.unwrap_or(default))
}

/// How many times as long everything may take here.
pub const SLOWNESS: &str = "BUSBAR_TEST_PATIENCE";

/// So long, or longer on a machine that is slow for a known reason: [`SLOWNESS`] times.
pub fn patient(limit: Duration) -> Duration {
    let times = std::env::var(SLOWNESS).ok();
    limit * times.and_then(|v| v.parse().ok()).unwrap_or(1)
}

/// Waits until `f` gives something; `None` when it gives nothing for [`PATIENCE`].
pub fn is_so<T>(mut f: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(v) = f() {
            return Some(v);
        }
        if start.elapsed() >= patient(PATIENCE) {
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until `f` gives something.
///
/// # Panics
/// When it gives nothing for [`PATIENCE`].
pub fn until<T>(what: &str, f: impl FnMut() -> Option<T>) -> T {
    is_so(f).unwrap_or_else(|| panic!("{what} did not happen"))
}
