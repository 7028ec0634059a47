//! Making kernels see memory of the program's.
//!
//! Bytes go and come ahead of the queue: the worker may be in the middle of a call that waits for a
//! function of the program's, and that function may be what faults.

use super::prelude::*;
use crate::cuda::call::{Host, watch};
use crate::cuda::engine::{place, shared, transfer};
use crate::cuda::state::area::{Area, Evidence, SMALL};
use crate::cuda::state::ranges::{Range, Sort, pages};
use crate::cuda::state::spares::Spare;

const PAGE: u64 = 4096;

/// Shadows new managed memory, whose pages the program may read already.
pub fn add_managed(cx: Cx, at: u64, len: u64) -> Result<()> {
    cx.handle_faults()?;
    crate::log!(Info, "{len} bytes of managed memory at {at:#x}");
    let a = Area::new(Sort::Managed, at, len, at, cx.scope);
    cx.state().shadows.insert(&Host, a)
}

/// Shadows a managed variable that a module brought, at the address where the driver put it.
pub fn add_variable(cx: Cx, (at, size): (u64, u64), context: u32) -> Result<()> {
    cx.handle_faults()?;
    crate::log!(Info, "a managed variable of {size} bytes at {at:#x}");
    let map = |page, len| {
        place::map_fixed(page, len, libc::PROT_NONE).inspect_err(|_| {
            crate::log!(
                Error,
                "the address {page:#x} of a managed variable is taken in this program"
            );
        })
    };
    let shadows = &cx.state().shadows;
    shadows.add_variable(&Host, (at, size), context, map)
}

/// The context of memory that is none's.
const NOBODYS: u32 = u32::MAX;

/// Devices may use host memory that the program has made and mapped, and the worker has, too.
pub fn add_created(cx: Cx, at: u64, len: u64) -> Result<()> {
    let shadows = &cx.state().shadows;
    cx.handle_faults()?;
    let _one = shadows.exposing();
    if shadows.device_side(at, 1).is_some() {
        return Ok(());
    }
    crate::log!(
        Info,
        "kernels see {len} bytes of created host memory at {at:#x}"
    );
    transfer::wait_for_copies(cx, at, len);
    // Of what lies in a file nobody sees the accesses of other processes.
    let of_others = cx.state().ranges.find(at).is_some_and(|r| r.is_in_file());
    let mut area = match of_others {
        true => Area::open_wide(Sort::Host, at, len, at, NOBODYS),
        false => Area::new(Sort::Host, at, len, at, NOBODYS),
    };
    area.begin_on_host(libc::PROT_READ | libc::PROT_WRITE);
    insert(cx, area)
}

/// Shadows memory; of what is never closed a thread looks after what the program writes.
fn insert(cx: Cx, area: Area) -> Result<()> {
    let watched = area.is_watched();
    cx.state().shadows.insert(&Host, area)?;
    if watched {
        watch::start(cx)?;
    }
    Ok(())
}

/// Such memory is about to be unmapped: all its bytes are here first.
pub fn take_created(cx: Cx, at: u64, len: u64) {
    transfer::wait_for_copies(cx, at, len);
    let wait = |owed: &[(u32, u32)], mark| cx.wait_for(owed, mark);
    let shadows = &cx.state().shadows;
    shadows.forget_registered(&Host, &cx, at, wait);
}

/// Makes a kernel see page-locked memory that there is evidence for: gives its address on the
/// device. The log hears `why`.
pub fn expose(
    cx: Cx,
    r: &Range,
    p: u64,
    evidence: Evidence,
    why: impl FnOnce() -> String,
) -> Result<u64> {
    if cx.state().spaces.is_shared(p) {
        return Ok(p);
    }
    let shadows = &cx.state().shadows;
    if let Some(known) = shadows.named(p, evidence) {
        return Ok(known);
    }
    if r.is_created() {
        // No device was let use it, so that one that does fails as it should.
        return Ok(p);
    }
    let (at, n) = (r.base, r.size);
    let elsewhere = |there: Cx| there.state().shadows.device_side(p, 1).is_some();
    refuse_if(cx.rest().any(elsewhere), CUDA_ERROR_NOT_SUPPORTED).inspect_err(|_| {
        let why = "kernels of another server see it";
        crate::log!(
            Error,
            "page-locked memory at {at:#x} stays where it is: {why}"
        );
    })?;
    crate::log!(
        Info,
        "kernels see {n} bytes of page-locked memory at {at:#x}: {}",
        why()
    );
    // Copies under way into it must not meet a closed page, and no adapter be let past one from now
    // on. What is read of it for copies under way is read as by functions. None of them is waited
    // for: the program may hold up their streams until this call has returned.
    transfer::wait_until_sent(cx, r.base, r.size);
    cx.put_arrivals_aside(r.base, r.size)?;
    transfer::forget(cx, r.base);
    cx.handle_faults()?;
    let _one = shadows.exposing();
    // Another thread may have been first: what is valid where must not be forgotten.
    if let Some(known) = shadows.named(p, evidence) {
        return Ok(known);
    }
    let home = match r.context {
        0 => cx,
        context => cx.in_context(context),
    };
    let (start, context) = match cx.state().spares.take_same(r) {
        Some(there) => there,
        None => (stand_in(home, r)?, home.scope),
    };
    show(cx.in_context(context), r, start, evidence)?;
    // Another thread may have queued a copy meanwhile.
    cx.put_arrivals_aside(r.base, r.size)?;
    Ok(start + (p - r.base))
}

/// Where the device has the host's end of a copy, if kernels see that memory. What launches named
/// by mistake is seen no longer.
pub fn end_of_copy(cx: Cx, p: u64, len: usize) -> Option<u64> {
    let shadows = &cx.state().shadows;
    if !shadows.active() {
        return None;
    }
    if let Some(base) = shadows.copied(p, cx.state().captures.any()) {
        give_up(cx, base);
    }
    shadows.device_side(p, len)
}

#[cold]
fn give_up(cx: Cx, base: u64) {
    let shadows = &cx.state().shadows;
    let Some(r) = cx.state().ranges.find_page_locked(base) else {
        return;
    };
    // Who names it at this moment waits here, and has it shown again.
    let _one = shadows.exposing();
    if let Some(left) = shadows.give_up(&Host, &cx, base) {
        crate::log!(
            Info,
            "kernels see the page-locked memory at {base:#x} no longer: copies alone use it"
        );
        let left = cx.state().spares.left(&r, left.context, left.start);
        withdraw(cx, &left);
    }
}

/// Has the worker map what stands for page-locked memory; where kernels find that.
fn stand_in(home: Cx, r: &Range) -> Result<u64> {
    let page = r.base & !(PAGE - 1);
    let whole = pages(r.base - page + r.size);
    for old in home.state().spares.take_between(page, page + whole) {
        withdraw(home, &old);
    }
    // At the program's own address wherever that can be: then a pointer is good at any depth.
    let from = match shared::stand_in(home, page, whole, page) {
        Err(_) if r.sort == Sort::Registered => place::map_window(home, page, whole)?,
        done => done.map(|()| page)?,
    };
    Ok(from + (r.base - page))
}

/// Shadows page-locked memory, which the worker has at `start`, registered in the context that
/// `home` is in.
pub fn show(home: Cx, r: &Range, start: u64, evidence: Evidence) -> Result<()> {
    let shadows = &home.state().shadows;
    // Flags and counters by which the program talks to running kernels are small. Of what others
    // see too, by another mapping, in its file or in another process, nobody sees the accesses.
    let open = r.size <= SMALL && shadows.has_room_for_small(r.size)
        || r.is_in_file()
        || r.sort == Sort::Registered && place::is_seen_by_others(r.base, r.size);
    let mut area = match r.sort {
        sort if open => Area::open_wide(sort, r.base, r.size, start, home.scope),
        Sort::Host => Area::new(Sort::Host, r.base, pages(r.size), start, home.scope),
        _ => Area::registered(r.base, r.size, start, home.scope),
    };
    let read_only = r.sort == Sort::Registered && r.flags & CU_MEMHOSTREGISTER_READ_ONLY != 0;
    area.begin_on_host(match read_only {
        true => libc::PROT_READ,
        false => libc::PROT_READ | libc::PROT_WRITE,
    });
    area.is_named(evidence);
    insert(home, area)
}

/// Kernels see page-locked memory no longer, which is about to go, or to be the program's alone;
/// what was registered has all its bytes here first. What the worker has of it, and whether all
/// work that may use that is over.
fn hide(cx: Cx, r: &Range) -> Option<(Spare, bool)> {
    let shadows = &cx.state().shadows;
    let left = match r.sort {
        _ if r.sort == Sort::Registered || r.is_in_file() => {
            let wait = |owed: &[(u32, u32)], mark| cx.wait_for(owed, mark);
            shadows.forget_registered(&Host, &cx, r.base, wait)
        }
        _ => shadows.forget_host(&Host, r.base),
    }?;
    // What the worker has told of it is not for who has it next.
    shadows.areas().arrive(&Host);
    let left_over = cx.state().spares.left(r, left.context, left.start);
    Some((left_over, left.over))
}

/// Waits until no work uses what the worker has of hidden memory.
fn let_work_end(cx: Cx, s: &Spare) {
    shared::let_work_end(cx.in_context(s.context), s.start);
    cx.state().shadows.areas().arrive(&Host);
}

/// Hides memory of which nothing is kept.
pub fn conceal(cx: Cx, r: &Range) {
    if let Some((left, _)) = hide(cx, r) {
        withdraw(cx, &left);
    }
}

/// Hides memory whose kind programs make one after the other: what stood for it is for the next
/// one. Says what is too much then, of which nothing is left at the worker.
pub fn put_by(cx: Cx, r: &Range) -> Option<Vec<Spare>> {
    let (left, over) = hide(cx, r)?;
    if !over {
        let_work_end(cx, &left);
    }
    let (from, whole) = left.stand_in;
    // A session that is over has no worker that would tell.
    let _ = cx.client.session.memory_close(from, whole);
    let gone = cx.state().spares.keep(left);
    gone.iter().for_each(|old| withdraw(cx, old));
    Some(gone)
}

/// What stood for such memory goes. The worker's executor waits for all work before it unmaps it,
/// so there must be none.
fn withdraw(cx: Cx, s: &Spare) {
    if !cx.state().shadows.is_over() {
        let_work_end(cx, s);
    }
    let (from, whole) = s.stand_in;
    shared::leave(cx.in_context(s.context), from, whole);
    leave_window(cx, s);
}

/// Where kernels found such memory, if not at its own address, other memory may be seen.
pub fn leave_window(cx: Cx, s: &Spare) {
    let (from, whole) = s.stand_in;
    if s.start != s.base {
        place::leave_window(&cx.state().spaces, from, whole);
    }
}
