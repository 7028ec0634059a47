//! Copies, through staging memory that the driver knows as page-locked.

use super::address::check_destination;
use super::done::{Kept, Staged, Then};
use super::prelude::*;
use super::promised::Promised;
use super::reach::{self, End};
use super::room::{kept, room_for, staging_out};
use super::state::mirrors::Room;
use crate::aside;
use crate::staging::Arena;
use busbar_channel::switches::Switch;
use busbar_transport::Memory;
use busbar_wire::generated::cuda::contract::MOST_READ;
use busbar_wire::limits::BULK_CHUNK;

/// Makes the staging memory known to the driver, on a thread of its own: it takes some milliseconds
/// that a program need not wait for. Until it is done copies are slower and nothing else.
pub fn register(w: &Cuda, context: u64) {
    if !Switch::Staging.on() {
        return;
    }
    for arena in [&w.incoming, &w.outgoing] {
        register_one(w.driver, context, arena);
    }
}

/// The same of one arena, of which the session keeps a clone to its end.
pub fn register_one(driver: &'static Driver, context: u64, arena: &Arena) {
    let arena = arena.clone();
    let run = move || {
        let Some(Memory { start, len }) = arena.to_register() else {
            return;
        };
        // SAFETY: a live context; memory that lives as long as the arena.
        unsafe {
            driver.cuCtxSetCurrent(context as CUcontext);
            driver.cuMemHostRegister_v2(start.cast(), len, CU_MEMHOSTREGISTER_PORTABLE);
        }
    };
    let _ = aside::run("register", run);
}

pub fn copy_in(w: &mut Cuda, m: msg::CopyIn<'_>) -> Result {
    let (kept, p) = kept(w, m.data);
    let rc = attempt(|| {
        let stream = w.running_stream(m.stream)? as CUstream;
        let (dst, src) = (End::Device(w.address(m.dst)?), End::Host(p as u64));
        // SAFETY: the record's bytes, which live through the call; page-locked ones the driver may
        // go on reading, so they are kept until the copy is done.
        unsafe { reach::bytes(w, stream, dst, src, m.data.len()) }
    });
    has_read(w, kept, m.stream, rc)
}

/// Copies bytes that are kept, and keeps them until that is done.
fn copy_kept(w: &mut Cuda, (dst, stream): (u64, u32), (room, n): (Arc<Room>, usize)) -> Result {
    let here = w.here(stream);
    w.running_stream(stream)?;
    let (dst, src) = (End::Device(w.address(dst)?), End::Host(room.ptr));
    // SAFETY: page-locked memory of at least that size, which nobody writes while it is kept.
    unsafe { reach::bytes(w, here.0, dst, src, n)? };
    let done = Then::Release(Kept::Shared(room));
    w.completer.after(here.0, here.1, done);
    Ok(())
}

pub fn copy_in_kept(w: &mut Cuda, m: msg::CopyInKept<'_>) -> Result<(), Fail> {
    let n = m.data.len();
    w.kept_bytes.clear(m.place, n)?;
    // Where there is no such memory the client is told, and its next word of this place, too.
    let room = room_for(w, n)?;
    // SAFETY: fresh memory of that size.
    unsafe { std::ptr::copy_nonoverlapping(m.data.as_ptr(), room.ptr as *mut u8, n) };
    w.kept_bytes.put(m.place, (room.clone(), n));
    Ok(copy_kept(w, (m.dst, m.stream), (room, n))?)
}

pub fn copy_in_again(w: &mut Cuda, m: msg::CopyInAgain) -> Result<(), Fail> {
    let known = w.kept_bytes.get(m.place)?;
    // One that there was no memory for.
    let known = known.ok_or(CUDA_ERROR_OUT_OF_MEMORY)?;
    Ok(copy_kept(w, (m.dst, m.stream), known)?)
}

/// Where a stream waits for bytes of the client's: the memory that they go to, and a word that
/// becomes 1 when they are there.
struct Awaited {
    room: Arc<Room>,
    word: Arc<Room>,
}

impl Awaited {
    fn word(&self) -> &AtomicU32 {
        // SAFETY: page-locked memory of at least a page, which `word` keeps; others read and write
        // it as a whole.
        unsafe { AtomicU32::from_ptr(self.word.ptr as *mut u32) }
    }

    /// The bytes are there, or will not come: the stream goes on.
    fn go_on(&self) {
        self.word().store(1, Ordering::Release);
    }
}

unsafe extern "C" fn wait_here(data: *mut c_void) {
    // SAFETY: made by `await_bytes` for this one run.
    let a = unsafe { Box::from_raw(data.cast::<Awaited>()) };
    while a.word().load(Ordering::Acquire) == 0 {
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Has the client asked for bytes when a stream has come so far, and the stream wait for them: on
/// the device, since the driver may have one thread for the functions of all streams, where one of
/// the program's may wait for what this stream does. Gives where they will be.
fn await_bytes(
    w: &mut Cuda,
    (stream, context): (CUstream, u64),
    promised: Promised,
    len: usize,
) -> Result<Arc<Room>> {
    let (room, word) = (room_for(w, len)?, room_for(w, size_of::<u32>())?);
    let place = word.ptr;
    let awaited = Arc::new(Awaited {
        room: room.clone(),
        word,
    });
    awaited.word().store(0, Ordering::Release);
    let (asked, read) = (awaited.clone(), w.reads.begin(context));
    let ask = move |rc| {
        let came = asked.clone();
        let then = move || {
            came.go_on();
            drop(read);
        };
        match rc {
            // SAFETY: `then` keeps the memory.
            CUDA_SUCCESS => unsafe { promised.read((asked.room.ptr, len), then) },
            _ => then(),
        }
    };
    w.completer.after(stream, context, Then::Run(Box::new(ask)));
    const AT_LEAST: u32 = 0;
    // SAFETY: a live stream, and a word that lives until the stream has gone on: the caller keeps
    // the memory until the copy behind it is done.
    let rc = unsafe { w.cuStreamWaitValue32_v2(stream, place, 1, AT_LEAST) };
    if rc != CUDA_SUCCESS {
        let data = Box::into_raw(Box::new(Awaited {
            room: room.clone(),
            word: awaited.word.clone(),
        }));
        // SAFETY: a live stream; the data is what the function expects.
        check(unsafe { w.cuLaunchHostFunc(stream, Some(wait_here), data.cast()) })
            // SAFETY: it was not taken, so nobody else has it.
            .inspect_err(|_| drop(unsafe { Box::from_raw(data) }))?;
    }
    let done = Then::Release(Kept::Shared(awaited));
    w.completer.after(stream, context, done);
    Ok(room)
}

pub fn copy_in_later(w: &mut Cuda, m: msg::CopyInLater<'_>) -> Result<(), Fail> {
    let promised = w.promises.take(m.token, true);
    let (mut c, len) = shape(m.shape)?;
    let stream = w.running_stream(m.stream)? as CUstream;
    c.dstArray = array(w, m.array)?;
    check_destination(w, &c)?;
    if len == 0 || len as u64 > MOST_READ {
        return Err(CUDA_ERROR_INVALID_VALUE.into());
    }
    let here = w.here(m.stream);
    let room = await_bytes(w, here, promised, len)?;
    // SAFETY: page-locked memory of that size, which is kept until the copy is done.
    unsafe { from_packed(w, &mut c, room.ptr, stream)? };
    let done = Then::Release(Kept::Shared(room));
    w.completer.after(here.0, here.1, done);
    Ok(())
}

/// What no bytes come for: the word behind them is what the stream waits for.
pub fn stream_gate(w: &mut Cuda, m: msg::StreamGate) -> Result<(), Fail> {
    let promised = w.promises.take(m.token, true);
    w.running_stream(m.stream)?;
    let here = w.here(m.stream);
    await_bytes(w, here, promised, size_of::<u32>()).map(drop)?;
    Ok(())
}

pub fn copy_out(w: &mut Cuda, m: msg::CopyOut) -> Result<Answered> {
    let (stream, ctx) = w.here(m.stream);
    let rc = attempt(|| {
        w.running_stream(m.stream)?;
        w.address(m.src)?;
        m.src.checked_add(m.len).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let mut done = 0;
        while done < m.len {
            let len = (m.len - done).min(BULK_CHUNK as u64) as usize;
            let (at, kept) = staging_out(w)?;
            let (dst, src) = (End::Host(at), End::Device(m.src + done));
            // SAFETY: it holds that many bytes, and is kept until they are sent.
            unsafe { reach::bytes(w, stream, dst, src, len)? };
            let piece = Staged { at, kept, len };
            done = send(w, (stream, ctx), (done, m.len), piece);
        }
        Ok(())
    });
    Ok(answered(w, (stream, ctx), m.len, rc))
}

pub fn settle(w: &mut Cuda, m: msg::Settle) -> Result {
    let stream = w.stream(m.stream)? as CUstream;
    let context = w.handle(Kind::Context, w.record.aux)?;
    let here = (w.current, context);
    match w.settled.mark(w.driver, here, (m.stream, stream)) {
        // There is no memory for an event, but what is over needs no mark.
        // SAFETY: a live stream of the current context.
        Err(CUDA_ERROR_OUT_OF_MEMORY) => check(unsafe { w.cuStreamSynchronize(stream) }),
        marked => marked,
    }
}

pub fn cu_memcpy_dto_d_async_v2(w: &mut Cuda, m: msg::CuMemcpyDtoDAsyncV2) -> Result {
    let stream = w.stream(m.h_stream)? as CUstream;
    let (dst, src) = (w.address(m.dst_device)?, w.address(m.src_device)?);
    let n = m.byte_count as usize;
    // SAFETY: no end is on the host.
    unsafe { reach::bytes(w, stream, End::Device(dst), End::Device(src), n) }
}

pub fn cu_memcpy_peer_async(w: &mut Cuda, m: msg::CuMemcpyPeerAsync) -> Result {
    let stream = w.stream(m.h_stream)? as CUstream;
    let mut end = |id, p| {
        let p = w.address(p)?;
        let context = if id == 0 {
            0
        } else {
            w.handle(Kind::Context, id)?
        };
        Ok::<_, CUresult>((p, reach::peer(w, context, p) as CUcontext))
    };
    let (dst, dst_context) = end(m.dst_context, m.dst_device)?;
    let (src, src_context) = end(m.src_context, m.src_device)?;
    let n = m.byte_count as usize;
    // SAFETY: live contexts or none; the driver checks the addresses.
    check(unsafe { w.cuMemcpyPeerAsync(dst, dst_context, src, src_context, n, stream) })
}

pub use super::copy_rows::*;
