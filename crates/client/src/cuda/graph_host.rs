//! The program's memory in graphs.
//!
//! A copy node whose one end is the program's memory copies from or to a *mirror* at the worker.
//! Here is what each mirror stands for. Before a launch the bytes of every source are sent, in the
//! order of the launch's stream; after it the bytes of every destination are asked for, and arrive
//! before any later wait for that stream is over.

use super::copy::{self, Arriving};
use super::copy_rows::{End, HOST, Rows, shape};
use super::handles;
use super::runtime::{Cx, decode};
use super::stream;
use crate::session::CHUNK;
use busbar_abi::cuda::*;
use busbar_channel::Bulk;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A box of the program's memory.
#[derive(Clone, Copy)]
pub(super) struct HostBox {
    /// Where it begins, and its pitch.
    pub(super) end: End,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) depth: usize,
}

impl HostBox {
    fn len(&self) -> usize {
        self.width * self.height * self.depth
    }

    /// Its first address, and how many bytes its rows span.
    pub(super) fn span(&self) -> (u64, usize) {
        let last = self.end.row(self.height - 1, self.depth - 1);
        let first = self.end.row(0, 0);
        (first, (last - first) as usize + self.width)
    }

    /// Bytes that will be put in their places.
    pub(super) fn arriving(&self) -> Arriving {
        let (p, n) = self.span();
        Arriving::new(p, n)
    }

    /// Its first byte, if its rows lie one behind the other.
    fn whole(&self) -> Option<*mut u8> {
        let rows = self.height * self.depth == 1 || self.end.pitch == self.width;
        let planes = self.depth == 1 || self.end.height == self.height;
        (rows && planes).then(|| self.end.row(0, 0) as *mut u8)
    }

    /// The bytes, packed.
    ///
    /// # Safety
    /// The program's memory is readable.
    unsafe fn gather(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len());
        for z in 0..self.depth {
            for y in 0..self.height {
                let p = self.end.row(y, z) as *const u8;
                // SAFETY: a row of the program's box.
                out.extend_from_slice(unsafe { std::slice::from_raw_parts(p, self.width) });
            }
        }
        out
    }

    /// Puts packed bytes in their places.
    ///
    /// # Safety
    /// The program's memory is writable, and `packed` as long as the box.
    pub(super) unsafe fn scatter(&self, packed: &[u8]) {
        for (i, row) in packed.chunks_exact(self.width).enumerate() {
            let to = self.end.row(i % self.height, i / self.height) as *mut u8;
            // SAFETY: a row of the program's box.
            unsafe { std::ptr::copy_nonoverlapping(row.as_ptr(), to, self.width) };
        }
    }
}

/// What a mirror stands for.
#[derive(Clone, Copy)]
struct Reflected {
    at: HostBox,
    /// A graph writes it; of any other the server gets no more than the bytes.
    written: bool,
}

/// Mirrors by id.
static MIRRORS: Mutex<Option<HashMap<u32, Reflected>>> = Mutex::new(None);
static NEXT: AtomicU32 = AtomicU32::new(1);

/// What an executable graph needs before and after each launch.
#[derive(Default)]
pub(super) struct Lists {
    sources: Vec<u32>,
    destinations: Vec<u32>,
}

/// Executable graphs that have to do with the program's memory.
static EXECS: Mutex<Option<HashMap<u32, Arc<Lists>>>> = Mutex::new(None);
/// How many those are: mostly none, and then a launch looks no further.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the server may have.
fn host_box(id: u32) -> Option<HostBox> {
    lock(&MIRRORS).as_ref()?.get(&id).map(|m| m.at)
}

/// What the server may write.
fn destination(id: u32) -> Option<HostBox> {
    let m = lock(&MIRRORS).as_ref()?.get(&id).copied()?;
    m.written.then_some(m.at)
}

/// The worker has no use for a mirror any more.
pub fn gone(id: u32) {
    if let Some(all) = lock(&MIRRORS).as_mut() {
        all.remove(&id);
    }
}

/// Sets what an executable graph reads and writes.
pub(super) fn learn(exec: u32, sources: Vec<u32>, destinations: Vec<u32>) {
    let mut execs = lock(&EXECS);
    let all = execs.get_or_insert_default();
    if sources.is_empty() && destinations.is_empty() {
        all.remove(&exec);
    } else {
        let lists = Lists {
            sources,
            destinations,
        };
        all.insert(exec, Arc::new(lists));
    }
    COUNT.store(all.len(), Ordering::Release);
}

/// What an executable graph reads and writes, if anything.
pub(super) fn lists(exec: u32) -> Option<Arc<Lists>> {
    if COUNT.load(Ordering::Acquire) == 0 {
        return None;
    }
    lock(&EXECS).as_ref()?.get(&exec).cloned()
}

/// A copy as it travels: its shape, ids of arrays, ids of mirrors.
pub(super) struct Travel {
    pub(super) shape: CUDA_MEMCPY3D,
    pub(super) arrays: [u32; 2],
    pub(super) mirrors: [u32; 2],
}

fn mirror(r: &Rows, end: End, written: bool) -> u32 {
    if end.memory != HOST {
        return 0;
    }
    let id = NEXT.fetch_add(1, Ordering::Relaxed).max(1);
    let b = HostBox {
        end,
        width: r.width,
        height: r.height,
        depth: r.depth,
    };
    let m = Reflected { at: b, written };
    lock(&MIRRORS).get_or_insert_default().insert(id, m);
    id
}

/// Prepares a copy for a graph: each end on the host gets a mirror.
pub(super) fn travel(cx: Cx, r: &Rows) -> Result<Travel, CUresult> {
    let bytes = r.width.checked_mul(r.height);
    let bytes = bytes.and_then(|n| n.checked_mul(r.depth));
    if !bytes.is_some_and(|n| n > 0 && n < 1 << 40) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let array = |e: &End| cx.handle_opt(Kind::Array, e.array);
    let r = r.settled();
    for e in [&r.src, &r.dst] {
        if e.memory == HOST && (e.host == 0 || e.pitch < r.width) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
    }
    Ok(Travel {
        shape: shape(&r),
        arrays: [array(&r.src)?, array(&r.dst)?],
        mirrors: [mirror(&r, r.src, false), mirror(&r, r.dst, true)],
    })
}

/// Puts the program's own addresses back where the worker has mirrors.
pub(super) fn restore(c: &mut CUDA_MEMCPY3D, mirrors: [u32; 2]) {
    if let Some(b) = host_box(mirrors[0]) {
        c.srcMemoryType = CU_MEMORYTYPE_HOST as _;
        (c.srcHost, c.srcDevice) = (b.end.host as _, 0);
        (c.srcXInBytes, c.srcY, c.srcZ) = (b.end.x, b.end.y, b.end.z);
        (c.srcPitch, c.srcHeight) = (b.end.pitch, b.end.height);
    }
    if let Some(b) = host_box(mirrors[1]) {
        c.dstMemoryType = CU_MEMORYTYPE_HOST as _;
        (c.dstHost, c.dstDevice) = (b.end.host as _, 0);
        (c.dstXInBytes, c.dstY, c.dstZ) = (b.end.x, b.end.y, b.end.z);
        (c.dstPitch, c.dstHeight) = (b.end.pitch, b.end.height);
    }
}

/// Makes a node of a copy with host memory if its stream captures; says whether it did.
pub(super) fn capture(cx: Cx, r: &Rows, stream: u32) -> Result<bool, CUresult> {
    if !stream::captures(cx, stream)? {
        return Ok(false);
    }
    let t = travel(cx, r)?;
    let m = msg::CaptureCopy {
        shape: busbar_abi::bytes_of(&t.shape),
        arrays: t.arrays,
        mirrors: t.mirrors,
        stream,
    };
    let drop_mirrors = |_: &CUresult| t.mirrors.into_iter().for_each(gone);
    let reply = cx.call(&m).inspect_err(drop_mirrors)?;
    Ok(decode::<msg::CaptureCopyReply>(&reply)?.captured != 0)
}

/// Sends the bytes of a box, in pieces.
unsafe fn send(
    b: &HostBox,
    mut piece_at: impl FnMut(u64, &[u8]) -> Result<(), CUresult>,
) -> Result<(), CUresult> {
    // SAFETY: passed on to the caller.
    let (packed, p) = match b.whole() {
        Some(p) => (Vec::new(), p.cast_const()),
        None => {
            // SAFETY: passed on to the caller.
            let v = unsafe { b.gather() };
            let p = v.as_ptr();
            (v, p)
        }
    };
    let len = b.len();
    let mut done = 0;
    while done < len {
        let n = CHUNK.min(len - done);
        // SAFETY: within the box or its packed bytes.
        let piece = unsafe { std::slice::from_raw_parts(p.add(done), n) };
        piece_at(done as u64, piece)?;
        done += n;
    }
    drop(packed);
    Ok(())
}

/// Sends what a launch on `stream` will read.
///
/// # Safety
/// The program's memory is readable, as the API asks.
pub(super) unsafe fn before_launch(cx: Cx, l: &Lists, stream: u32) -> Result<(), CUresult> {
    for id in &l.sources {
        let Some(b) = host_box(*id) else { continue };
        let (p, n) = b.span();
        if copy::is_due(p, n) {
            // What is queued before the launch writes what this is to read.
            cx.call(&msg::CuStreamSynchronize { h_stream: stream })?;
        }
        let queue = |offset, piece: &[u8]| {
            let m = msg::MirrorIn {
                mirror: *id,
                stream,
                offset,
                data: &[],
            };
            cx.send_bulk(&m, Bulk::Copy(piece))
        };
        // SAFETY: passed on to the caller.
        unsafe { send(&b, queue)? };
    }
    Ok(())
}

/// Asks for what a launch on `stream` writes.
///
/// # Safety
/// The program's memory stays writable until it has waited for the stream, as the API asks.
pub(super) unsafe fn after_launch(
    cx: Cx,
    exec: u32,
    l: &Lists,
    stream: u32,
) -> Result<(), CUresult> {
    for id in &l.destinations {
        let Some(b) = destination(*id) else { continue };
        let m = msg::MirrorOut {
            exec,
            mirror: *id,
            stream,
        };
        let len = b.len();
        if let Some(p) = b.whole() {
            // SAFETY: passed on to the caller.
            unsafe { copy::later(cx, &m, (p, len), b.arriving(), |_| {})? };
            continue;
        }
        let mut packed = vec![0u8; len];
        let p = packed.as_mut_ptr();
        // SAFETY: the bytes live in the closure until they have arrived.
        unsafe {
            copy::later(cx, &m, (p, len), b.arriving(), move |ok| {
                if ok {
                    // SAFETY: passed on to the caller.
                    b.scatter(&packed);
                }
            })?;
        }
    }
    Ok(())
}

/// Before a host node's function runs: what copies before it have written. Ahead of what is queued,
/// which may wait for the graph.
pub fn fetch(cx: Cx, ids: &[u32]) {
    for id in ids {
        let Some(b) = destination(*id) else { continue };
        let mut packed = vec![0u8; b.len()];
        let answer = cx.rt.session.mirror_out(*id, &mut packed);
        if answer.is_ok_and(|a| a.status == CUDA_SUCCESS) {
            // SAFETY: a graph of the program's writes this memory.
            unsafe { b.scatter(&packed) };
        }
    }
}

/// After a host node's function has run: what copies behind it will read. It is there before the
/// worker heeds the word that the function has returned.
pub fn give(cx: Cx, ids: &[u32]) {
    for id in ids {
        let Some(b) = host_box(*id) else { continue };
        let write = |offset, piece: &[u8]| {
            let sent = cx.rt.session.mirror_in(*id, offset, piece);
            sent.map_err(|_| CUDA_ERROR_DEVICE_UNAVAILABLE)
        };
        // SAFETY: a graph of the program's reads this memory.
        let _ = unsafe { send(&b, write) };
    }
}

/// Ends what is known of an executable graph.
pub(super) fn forget(exec: u32) {
    learn(exec, vec![], vec![]);
    handles::destroy(Kind::GraphExec, exec);
}
