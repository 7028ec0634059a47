//! A thread that watches small memory by which the program and running kernels talk: flags,
//! counters, words that a stream waits for.
//!
//! Such memory is open to the program at all times, so nobody sees its accesses. While work may be
//! under way the thread looks for what the program has changed, and sends that ahead of the queue;
//! and asks the worker, which compares what devices have, for what kernels have changed.

use super::cx::Cx;
use super::host::Host;
use crate::cuda::state::pace::{Pace, Sight};
use crate::cuda::state::shadows::Far as _;
use crate::threads;
use busbar_abi::cuda::*;
use std::time::{Duration, Instant};

/// A running kernel has an answer to what it is told within this time: to ask sooner would cost
/// another round trip.
const ANSWER: Duration = Duration::from_micros(20);

/// Sees to it that small memory of this client is watched.
pub fn start(cx: Cx) -> Result<()> {
    if !cx.state().shadows.begin_watch() {
        return Ok(());
    }
    let started = threads::start("busbar-watch", move || _ = watch(cx));
    started.map_err(|_| CUDA_ERROR_OPERATING_SYSTEM)
}

/// Sees to it that what the program sees beside work that lasts is closed again.
pub fn start_to_close(cx: Cx) -> Result<()> {
    if !cx.state().shadows.begin_to_close() {
        return Ok(());
    }
    let started = threads::start("busbar-late", move || _ = close(cx));
    started.map_err(|_| CUDA_ERROR_OPERATING_SYSTEM)
}

/// Closes it until the session is over.
fn close(cx: Cx) -> Result<()> {
    loop {
        cx.state().shadows.late().end_late(&Host, &cx)?;
        cx.client.session.flush();
    }
}

/// Watches until the session is over.
fn watch(cx: Cx) -> Result<()> {
    let shadows = &cx.state().shadows;
    let mut pace = Pace::default();
    loop {
        let mut areas = shadows.due();
        let begun = Instant::now();
        let pushed = areas.push_edges(&Host, &cx)?;
        let looks = areas.looks();
        drop(areas);
        let sight = Sight {
            bytes: looks.iter().map(|(_, bytes)| bytes).sum(),
            talk: looks.iter().any(|(area, _)| may_talk(cx, *area)),
        };
        if pushed || looks.is_empty() {
            cx.client.session.flush();
        }
        if pushed {
            let sent = Instant::now();
            while sent.elapsed() < ANSWER {
                std::hint::spin_loop();
            }
        }
        let asks = pace.asks(sight, pushed);
        let mut changed = pushed;
        if asks {
            cx.look(false)?;
            changed |= shadows.areas().arrive(&Host);
        }
        let rest = pace.rest(sight, begun.elapsed(), asks, changed);
        if !rest.is_zero() {
            std::thread::sleep(rest);
        }
    }
}

/// Whether a kernel and the program may talk by this memory, as far as is known. Copies seldom have
/// an end in a flag. In other small memory they have: where PyTorch reads a loss, for instance, and
/// its address is found on the stack of functions that are launched. To ask for that all the time
/// was to fill the link with questions that nobody had.
fn may_talk(cx: Cx, area: u64) -> bool {
    let ranges = &cx.state().ranges;
    let found = ranges.find_page_locked(area);
    found.is_none_or(|r| ranges.may_be_for_kernels(&r))
}
