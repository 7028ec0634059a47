//! What devices of several servers have to do with each other: copies between them, and streams of
//! one that wait for events of another.
//!
//! A stream that has to wait for another server comes to a gate: its worker says so, and the client
//! lets it go on when what it waits for is done. The bytes of a copy go through the client, by
//! streams of our own on both sides: what the program's stream orders is the gate.

use super::prelude::*;
use crate::cuda::engine::{callback, settled, stream, transfer};
use crate::cuda::state::rows::{ARRAY, DEVICE, End, HOST, Rows, UNIFIED};
use crate::threads;
use std::sync::mpsc::{Receiver, channel};

/// How many bytes go at a time, and how many such pieces are under way.
const PIECE: usize = 4 << 20;
const PIECES: usize = 4;

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
    callback::gate(of, stream, move |go_on| {
        let run = move || {
            if let Err(e) = copy() {
                of.state().contexts.defer(of.scope, e);
            }
            drop(go_on);
        };
        // Without a thread the copy is lost, and the stream goes on.
        let _ = threads::start("busbar-across", run);
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
            d.state().must_be_on_device(dst, len)?;
            s.state().must_be_on_device(src, len)?;
            between(cx, (d, s), stream, later, move || {
                carry((d, dst), (s, src), len)
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
        Way::Between(d, s) => between(cx, (d, s), stream, later, move || {
            let mut packed = vec![0u8; r.width * r.height * r.depth];
            let middle = End {
                memory: HOST,
                host: packed.as_mut_ptr() as u64,
                pitch: r.width,
                height: r.height,
                ..End::default()
            };
            let (mut out, mut into) = (r, r);
            (out.dst, into.src) = (middle, middle);
            let (from, to) = (Helper::of(s)?, Helper::of(d)?);
            // SAFETY: the packed box is as long as the copy; what is on the devices is checked.
            unsafe {
                copy_box(s, out, from.id, false, false)?;
                copy_box(d, into, to.id, false, false)?;
            }
            to.wait()
        }),
    })
}

/// A stream of our own that waits for no other, and that nothing else is in meanwhile.
struct Helper {
    cx: Cx,
    id: u32,
}

impl Helper {
    /// One in the context that a call is in.
    fn of(cx: Cx) -> Result<Self> {
        const NON_BLOCKING: u32 = 1;
        cx.need_context()?;
        let handles = &cx.state().handles;
        let usable = |raw: &u64| {
            let id = handles.id(Kind::Stream, *raw);
            id.is_none_or(|id| handles.context(Kind::Stream, id) == cx.scope)
        };
        let mut free = lock(&cx.client.helpers);
        while let Some(at) = free.iter().position(usable) {
            // Contexts that are gone have taken theirs along.
            if let Some(id) = handles.id(Kind::Stream, free.swap_remove(at)) {
                return Ok(Self { cx, id });
            }
        }
        drop(free);
        settled::not_alone(cx)?;
        let id = cx.create(Kind::Stream);
        cx.send(&msg::CuStreamCreate {
            ph_stream: id,
            flags: NON_BLOCKING,
        })
        .inspect_err(|_| cx.destroy(Kind::Stream, id))?;
        Ok(Self { cx, id })
    }

    fn wait(&self) -> Result<()> {
        let done = self
            .cx
            .call(&msg::CuStreamSynchronize { h_stream: self.id });
        done.map(drop)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let raw = self.cx.raw(Kind::Stream, self.id);
        lock(&self.cx.client.helpers).push(raw);
    }
}

/// A piece on its way from a device.
struct Piece {
    at: usize,
    bytes: Vec<u8>,
    came: Receiver<CUresult>,
}

impl Piece {
    fn ask(from: &Helper, src: u64, at: usize, len: usize) -> Result<Self> {
        let mut bytes = vec![0; len];
        let (tx, came) = channel();
        let m = msg::CopyOut {
            src: src + at as u64,
            len: len as u64,
            stream: from.id,
        };
        let place = Some((bytes.as_mut_ptr(), len));
        let then = move |a: Option<crate::calls::Answer>| {
            let status = a.map_or(CUDA_ERROR_DEVICE_UNAVAILABLE, |a| a.status);
            let _ = tx.send(status);
        };
        let session = &from.cx.client.session;
        // SAFETY: the bytes stay where they are until the answer has come: `Drop` waits for it.
        let asked = unsafe { session.call_async(from.cx.scope, &m, place, then) };
        asked.map_err(|_| CUDA_ERROR_DEVICE_UNAVAILABLE)?;
        session.flush();
        Ok(Self { at, bytes, came })
    }

    fn come(&self) -> Result<()> {
        match self.came.recv() {
            Ok(CUDA_SUCCESS) => Ok(()),
            Ok(e) => Err(e),
            Err(_) => Err(CUDA_ERROR_DEVICE_UNAVAILABLE),
        }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        // At once, where it was waited for: nobody sends any more.
        let _ = self.came.recv();
    }
}

/// Carries bytes from one server's device to another's.
fn carry((d, dst): (Cx, u64), (s, src): (Cx, u64), len: usize) -> Result<()> {
    let (from, to) = (Helper::of(s)?, Helper::of(d)?);
    let (mut asked, mut pieces) = (0, VecDeque::new());
    while asked < len || !pieces.is_empty() {
        while asked < len && pieces.len() < PIECES {
            let n = PIECE.min(len - asked);
            pieces.push_back(Piece::ask(&from, src, asked, n)?);
            asked += n;
        }
        if let Some(piece) = pieces.pop_front() {
            piece.come()?;
            transfer::queue(d, dst + piece.at as u64, &piece.bytes, to.id)?;
        }
    }
    to.wait()
}

/// Something that happens once, and what waits for it.
#[derive(Default)]
struct Once {
    happened: bool,
    then: Option<callback::GoOn>,
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
            callback::soon(client, move || drop(go_on));
        }
    };
    // SAFETY: no bytes come with that answer.
    let asked = unsafe { there.client.session.call_async(there.scope, &m, None, then) };
    asked.map_err(|_| CUDA_ERROR_DEVICE_UNAVAILABLE)?;
    there.client.session.flush();
    let of = cx.in_context(stream::context_of(cx, stream)?);
    callback::gate(of, stream, move |go_on| {
        let mut once = lock(&once);
        if !once.happened {
            once.then = Some(go_on);
        }
    })
}
