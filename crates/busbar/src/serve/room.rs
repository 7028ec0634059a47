//! Whether there is room: in this machine's memory for what leaves a device, and on a device for
//! what comes back.

use super::entry::SessionEntry;
use super::questions::Waiting;
use super::state::Server;
use crate::isolation::limits::memory_of_machine;
use busbar_control::attach::Question;
use busbar_control::holding::OnDevice;
use busbar_transport::lock::lock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What must be free of a device beyond what a session had of it: a driver takes it in larger
/// pieces, and neighbours take some meanwhile.
const MARGIN: u64 = 64 << 20;

/// How long a worker may take to say what its session has.
const TOLD: Duration = Duration::from_millis(500);

/// Bytes that are being copied from devices to this machine's memory, until they are there.
pub(super) struct Copied<'a>(&'a AtomicU64, u64);

impl<'a> Copied<'a> {
    fn new(all: &'a AtomicU64, bytes: u64) -> Self {
        all.fetch_add(bytes, Ordering::AcqRel);
        Self(all, bytes)
    }
}

impl Drop for Copied<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::AcqRel);
    }
}

/// How many bytes of this machine's memory may be taken: some is left, lest the system ends
/// something for it.
pub(super) fn of_machine() -> u64 {
    let of = memory_of_machine;
    match (of("MemAvailable:"), of("MemTotal:")) {
        (Some(free), Some(all)) => free.saturating_sub(all / 16).min(all / 3 * 2),
        _ => u64::MAX,
    }
}

/// What a session has on devices, if there is room for it here, and for all that comes beside it:
/// without, the system would end the worker, and all that it has would be lost.
pub(super) fn fits<'a>(server: &'a Server, session: &str) -> Option<Copied<'a>> {
    // What it says is kept with the session.
    if let Some(asked) = Waiting::ask(server, session, Question::Holding) {
        let _ = asked.answer(TOLD, || false);
    }
    let has = |s: &SessionEntry| s.holding.bytes();
    let bytes = lock(&server.sessions).get(session).map_or(0, has);
    let copied = Copied::new(&server.leaving, bytes);
    (server.leaving.load(Ordering::Acquire) <= of_machine()).then_some(copied)
}

/// What devices lack for what a session had of them, as far as NVML says. A driver that finds no
/// room for a process when it is to restore it says so, and can never restore it again (580): so it
/// is asked only where there is room.
pub(super) fn lacks(server: &Server, session: &str) -> Vec<OnDevice> {
    let had = |s: &SessionEntry| s.locked.clone();
    let had = lock(&server.sessions).get(session).map_or(Vec::new(), had);
    if had.is_empty() {
        return had;
    }
    let gpus = server.monitor.read_now(&server.workers).gpus;
    let pool = lock(&server.pool);
    let lacks = |on: OnDevice| {
        let free = gpus.get(pool.uuid("cuda", on.device)?)?.free()?;
        let bytes = (on.bytes + MARGIN).saturating_sub(free);
        (bytes > 0).then_some(OnDevice { bytes, ..on })
    };
    had.into_iter().filter_map(lacks).collect()
}
