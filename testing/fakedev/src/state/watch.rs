//! Who watches what is done: a profiler's library, which is simulated, too.

use super::work::Work;
use crate::ffi::R;
use std::cell::Cell;
use std::ffi::c_char;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// A piece of work that is done. What it does not have is zero.
#[repr(C)]
#[derive(Default)]
pub struct Done {
    /// 1 a copy, 2 a fill, 3 a kernel.
    pub kind: u32,
    /// 1 to the device, 2 from it, 8 on it, 9 beside it.
    pub copy_kind: u32,
    /// Where.
    pub place: Place,
    /// When it began and ended, in nanoseconds of the system's clock.
    pub start: u64,
    /// See `start`.
    pub end: u64,
    /// Of a copy or a fill.
    pub bytes: u64,
    /// Of a fill.
    pub value: u32,
    /// Of a kernel, as is what follows.
    pub shared: u32,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads.
    pub block: [u32; 3],
    /// A C string, which lives through the call, or null.
    pub name: usize,
}

/// Where work is done, and for which call.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Place {
    /// What the watcher said of the call; 0 for nothing.
    pub call: u32,
    /// The device's number.
    pub device: u32,
    /// The context's.
    pub context: u32,
    /// The stream's.
    pub stream: u32,
}

impl Place {
    const NONE: Self = Self {
        call: 0,
        device: 0,
        context: 0,
        stream: 0,
    };
}

/// Is asked on the calling thread for the number of a call that hands work in.
pub type Called = extern "C" fn() -> u32;
/// Is told of work, before anybody else can see that it is done.
pub type Told = extern "C" fn(*const Done);

static WATCHER: OnceLock<(Called, Told)> = OnceLock::new();

thread_local! {
    static PLACE: Cell<Place> = const { Cell::new(Place::NONE) };
}

/// Has it watch from now on. There is one.
pub fn watch(called: Called, told: Told) {
    let _ = WATCHER.set((called, told));
}

/// The number of the call that the calling thread makes.
pub fn called() -> u32 {
    WATCHER.get().map_or(0, |(called, _)| called())
}

/// Does work for a call.
pub fn at(place: Place, work: impl FnOnce()) {
    let before = PLACE.replace(place);
    work();
    PLACE.set(before);
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// Runs a piece of work, and tells of it.
pub fn told<T>(work: &Work, run: impl FnOnce() -> R<T>) -> R<T> {
    let place = PLACE.get();
    let Some((_, tell)) = WATCHER.get().filter(|_| place.call != 0) else {
        return run();
    };
    let start = now();
    let out = run()?;
    let done = Done {
        place,
        start,
        end: now(),
        ..of(work)
    };
    tell(&done);
    Ok(out)
}

/// What there is to say of a piece of work.
fn of(work: &Work) -> Done {
    match work {
        Work::Kernel(launch) => Done {
            kind: 3,
            shared: launch.shared,
            grid: launch.grid,
            block: launch.block,
            name: launch.function.name.as_ptr() as *const c_char as usize,
            ..Done::default()
        },
        Work::Copy(c) => Done {
            kind: 1,
            copy_kind: match (c.src.device, c.dst.device) {
                (false, true) => 1,
                (true, false) => 2,
                (true, true) => 8,
                (false, false) => 9,
            },
            bytes: (c.width * c.height * c.depth) as u64,
            ..Done::default()
        },
        Work::Fill(f) => Done {
            kind: 2,
            value: f.value,
            bytes: (f.width * f.height * f.element) as u64,
            ..Done::default()
        },
        _ => Done::default(),
    }
}
