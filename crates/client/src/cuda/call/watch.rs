//! A thread that watches small memory by which the program and running kernels talk: flags,
//! counters, words that a stream waits for.
//!
//! Such memory is open to the program at all times, so nobody sees its accesses. While work may be
//! under way the thread looks for what the program has changed, and sends that ahead of the queue;
//! and asks for the device's bytes, and writes what a kernel has changed. Each question is asked
//! twice in one round trip, and believed where both answers are the same: a kernel that writes data
//! and then a flag may do so while they are read.

use super::cx::Cx;
use super::host::Host;
use crate::cuda::state::area::Look;
use crate::cuda::state::shadows::Far as _;
use crate::threads;
use busbar_abi::cuda::*;
use std::time::{Duration, Instant};

/// A change is likely as long as the last one is no older than this: the thread sleeps for nothing
/// but the answer.
const EAGER: Duration = Duration::from_millis(20);
/// How long the thread sleeps after that between two looks at what the program has changed, and
/// where no kernel and program talk.
const PAUSE: Duration = Duration::from_micros(200);
const LONG_PAUSE: Duration = Duration::from_millis(2);
/// The device is asked again after this part of the time in which nothing has changed, so that a
/// change is seen late by as much at most; and after [`LONG_PAUSE`] at the latest. A training step
/// that says nothing to anybody would fill the link with questions.
const PART: u32 = 100;
/// A running kernel has an answer to what it is told within this time: to ask sooner would cost
/// another round trip.
const ANSWER: Duration = Duration::from_micros(20);
/// From so many bytes on there is a pause as long as the answer took.
const MANY: usize = 64 << 10;
/// Bytes that differ so often in a row are taken as they are.
const PATIENCE: u32 = 4;

/// Sees to it that small memory of this client is watched.
pub fn start(cx: Cx) -> Result<()> {
    if !cx.state().shadows.begin_watch() {
        return Ok(());
    }
    let started = threads::start("busbar-watch", move || watch(cx));
    started.map_err(|_| CUDA_ERROR_OPERATING_SYSTEM)
}

/// Watches until the session is over.
fn watch(cx: Cx) {
    let shadows = &cx.state().shadows;
    // Time of work in which nothing has changed.
    let mut quiet = Duration::ZERO;
    let (mut asked, mut differed) = (Instant::now(), 0);
    loop {
        let mut areas = shadows.due();
        let begun = Instant::now();
        let Ok(mut any) = areas.push_edges(&Host, &cx) else {
            return;
        };
        let looks = areas.looks();
        drop(areas);
        let bytes: usize = looks.iter().map(|l| 2 * l.len).sum();
        let eager = looks.iter().any(|l| may_talk(cx, l));
        if any || looks.is_empty() {
            cx.client.session.flush();
        }
        if any {
            let sent = Instant::now();
            while sent.elapsed() < ANSWER {
                std::hint::spin_loop();
            }
        }
        let patience = if eager {
            (quiet / PART).min(LONG_PAUSE)
        } else {
            LONG_PAUSE
        };
        if !looks.is_empty() && (any || quiet < EAGER || asked.elapsed() >= patience) {
            let Ok([first, second]) = twice(cx, &looks) else {
                return;
            };
            asked = Instant::now();
            if first == second || differed >= PATIENCE {
                differed = 0;
                let got: Vec<_> = looks.iter().copied().zip(second).collect();
                any |= shadows.areas().arrived(&Host, &got);
            } else {
                (differed, any) = (differed + 1, true);
            }
        }
        if bytes > MANY {
            // The link is for the program's own calls, too.
            std::thread::sleep(begun.elapsed());
        }
        if !(eager || looks.is_empty()) {
            std::thread::sleep(LONG_PAUSE);
        } else if !any && quiet > EAGER || looks.is_empty() {
            std::thread::sleep(PAUSE);
        }
        quiet = if any {
            Duration::ZERO
        } else {
            quiet + begun.elapsed()
        };
    }
}

/// Whether a kernel and the program may talk by this memory, as far as is known. Copies seldom have
/// an end in a flag. In other small memory they have: where PyTorch reads a loss, for instance, and
/// its address is found on the stack of functions that are launched. To ask for that all the time
/// was to fill the link with questions that nobody had.
fn may_talk(cx: Cx, look: &Look) -> bool {
    let ranges = &cx.state().ranges;
    let found = ranges.find_page_locked(look.edge.0);
    found.is_none_or(|r| ranges.may_be_for_kernels(&r))
}

/// What the device has, asked for twice.
fn twice(cx: Cx, looks: &[Look]) -> Result<[Vec<Option<Vec<u8>>>; 2], CUresult> {
    let mut first = cx.read_all(&[looks, looks].concat())?;
    let second = first.split_off(looks.len());
    Ok([first, second])
}
