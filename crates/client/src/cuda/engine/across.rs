//! What devices of several servers have to do with each other: copies between them, and streams of
//! one that wait for events of another.
//!
//! A stream that has to wait for another server comes to a gate: its worker says so, and the client
//! lets it go on when what it waits for is done. What the program's stream orders is the gate; the
//! bytes of a copy are carried meanwhile.

use super::prelude::*;
use crate::cuda::call::{GoOn, soon};
use crate::cuda::engine::helper::Helper;
use crate::cuda::engine::{carry, ends, stream};
use crate::cuda::state::rows::{ARRAY, DEVICE, End, Rows, UNIFIED, at};
use crate::threads;

/// The call at the client that has the device memory at an address; `None` of the program's own.
fn home(cx: Cx, p: u64) -> Option<Cx> {
    if cx.state().ranges.find_page_locked(p).is_some() {
        return None;
    }
    let there = cx.of_address(p);
    let here = std::ptr::eq(there.client, cx.client);
    (!here || !cx.state().on_host(p)).then_some(there)
}

fn same(a: Cx, b: Cx) -> bool {
    std::ptr::eq(a.client, b.client)
}

/// What a copy with these homes has to do with other servers.
enum Way {
    /// Both ends are one other server's, or one is that and one the program's.
    There(Cx),
    /// From one server to another.
    Between(Cx, Cx),
}

fn way(cx: Cx, dst: Option<Cx>, src: Option<Cx>) -> Option<Way> {
    match (dst, src) {
        (Some(d), Some(s)) if !same(d, s) => Some(Way::Between(d, s)),
        (Some(one), _) | (None, Some(one)) if !same(one, cx) => Some(Way::There(one)),
        _ => None,
    }
}

/// Runs a copy at another server, in the order of a stream here. Rare, so it waits.
fn there(cx: Cx, stream: u32, copy: impl FnOnce() -> Result<()>) -> Result<()> {
    stream::not_captured(cx, stream)?;
    cx.synchronize(stream)?;
    copy()
}

/// Runs a copy between two other places when its turn has come in a stream: before it returns, or
/// `later`.
fn between(
    cx: Cx,
    (d, s): (Cx, Cx),
    stream: u32,
    later: bool,
    copy: impl FnOnce() -> Result<()> + Send + 'static,
) -> Result<()> {
    stream::not_captured(cx, stream)?;
    if !later {
        // It is in the order of the default streams of all contexts that it concerns.
        cx.synchronize(stream)?;
        d.synchronize(0)?;
        s.synchronize(0)?;
        return copy();
    }
    let of = cx.in_context(stream::context_of(cx, stream)?);
    of.gate(stream, move |go_on| {
        let failed = move |e| of.state().contexts.defer(of.scope, e);
        // Whoever has it lets the stream go on, and says before that what has failed.
        let go_on = Arc::new(Mutex::new(Some(go_on)));
        let theirs = go_on.clone();
        let run = move || {
            if let Err(e) = copy() {
                failed(e);
            }
            lock(&theirs).take();
        };
        if threads::start("busbar-across", run).is_err() {
            failed(CUDA_ERROR_OPERATING_SYSTEM);
            lock(&go_on).take();
        }
    })
}

/// A copy between places that addresses tell, as `copy::any` makes it.
type Any = unsafe fn(Cx, u64, u64, usize, u32, bool) -> Result<()>;

/// A copy of a box, as `copy_rows::copy_box` makes it.
type Boxes = unsafe fn(Cx, Rows, u32, bool, bool) -> Result<()>;

/// A copy of bytes that has to do with other servers, if it has.
///
/// # Safety
/// As for `any`.
pub unsafe fn bytes(
    cx: Cx,
    dst: u64,
    src: u64,
    len: usize,
    stream: u32,
    later: bool,
    any: Any,
) -> Option<Result<()>> {
    if !cx.client.many || len == 0 {
        return None;
    }
    Some(match way(cx, home(cx, dst), home(cx, src))? {
        // SAFETY: passed on to the caller.
        Way::There(o) => there(cx, stream, || unsafe {
            any(o, dst, src, len, 0, false)?;
            o.synchronize(0)
        }),
        Way::Between(d, s) => (|| {
            let line = Rows {
                src: at(DEVICE, src),
                dst: at(DEVICE, dst),
                width: len,
                height: 1,
                depth: 1,
            };
            let line = apart((d, s), &line)?;
            between(cx, (d, s), stream, later, move || {
                carry::carry((d, s), &line)
            })
        })(),
    })
}

/// The client that has what an end of a box is in.
fn end_home(cx: Cx, e: &End) -> Option<Cx> {
    match e.memory {
        DEVICE | UNIFIED => home(cx, e.device),
        ARRAY => {
            let others = cx.others(Kind::Array, e.array);
            Some(others.map_or(cx, |(there, _)| there))
        }
        _ => None,
    }
}

/// As [`bytes`], of a box.
///
/// # Safety
/// As for `copy_box`.
pub unsafe fn rows(
    cx: Cx,
    r: &Rows,
    stream: u32,
    later: bool,
    copy_box: Boxes,
) -> Option<Result<()>> {
    if !cx.client.many {
        return None;
    }
    let mut r = *r;
    // Each client knows its own contexts.
    (r.src.context, r.dst.context) = (0, 0);
    Some(match way(cx, end_home(cx, &r.dst), end_home(cx, &r.src))? {
        // SAFETY: passed on to the caller.
        Way::There(o) => there(cx, stream, || unsafe {
            copy_box(o, r, 0, false, false)?;
            o.synchronize(0)
        }),
        Way::Between(d, s) => (|| {
            let r = apart((d, s), &r)?;
            between(cx, (d, s), stream, later, move || carry::carry((d, s), &r))
        })(),
    })
}

/// A box whose ends are devices of two clients, as it is known there.
fn apart((d, s): (Cx, Cx), r: &Rows) -> Result<Rows> {
    let src = ends::known(s, &r.src, r)?;
    let dst = ends::known(d, &r.dst, r)?;
    let device = |e: &End| matches!(e.memory, DEVICE | ARRAY);
    refuse_if(!device(&src) || !device(&dst), CUDA_ERROR_INVALID_VALUE)?;
    Ok(Rows { src, dst, ..*r })
}

/// Something that happens once, and what waits for it.
#[derive(Default)]
struct Once {
    happened: bool,
    then: Option<GoOn>,
}

/// A stream waits for an event of another server's.
pub fn wait(cx: Cx, stream: u32, (there, event): (Cx, u32)) -> Result<()> {
    stream::not_captured(cx, stream)?;
    // That the event is recorded again later is nothing to who waits now.
    let helper = Helper::of(there)?;
    there.send(&msg::CuStreamWaitEvent {
        h_stream: helper.id,
        h_event: event,
        flags: 0,
    })?;
    let once = Arc::new(Mutex::new(Once::default()));
    let told = once.clone();
    let m = msg::Reached { stream: helper.id };
    let client = cx.client;
    let then = move |_| {
        drop(helper);
        let go_on = {
            let mut once = lock(&told);
            once.happened = true;
            once.then.take()
        };
        // Not here, where answers are received.
        if let Some(go_on) = go_on {
            soon(client, move || drop(go_on));
        }
    };
    // SAFETY: no bytes come with that answer.
    let asked = unsafe { there.client.session.call_async(there.scope, &m, None, then) };
    asked.map_err(|_| CUDA_ERROR_DEVICE_UNAVAILABLE)?;
    there.client.session.flush();
    let of = cx.in_context(stream::context_of(cx, stream)?);
    of.gate(stream, move |go_on| {
        let mut once = lock(&once);
        if !once.happened {
            once.then = Some(go_on);
        }
    })
}
