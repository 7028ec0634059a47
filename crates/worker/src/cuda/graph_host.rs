//! The program's memory and functions in graphs.
//!
//! A copy node whose one end is the program's memory copies from or to a *mirror* instead:
//! page-locked memory here, which lies as the program's does, so that nodes whose ends overlap find
//! what others have written. The client sends a source's bytes before each launch and gets a
//! destination's after it. A host node calls back, and the client moves what such a function may
//! look at before and after.
//!
//! Mirrors and host calls live as long as any graph that has them: the driver's user objects count
//! the references of graphs, clones and children, and an executable graph's record here holds its
//! own.

use super::address::{check_captured_destination, check_captured_source};
use super::done::Then;
use super::driver::capture;
use super::prelude::*;
use super::promised::Promised;
use super::reach;
use super::room::make;
use super::state::mirrors::{Mirror, Named, Rows};
use crate::answer::Behind;
use crate::staging::Lent;
use std::any::Any;

/// Puts mirrors in the place of the host ends of a copy, which have the program's addresses.
/// Returns what must live as long as the copy.
pub fn mirror(
    w: &mut Cuda,
    c: &mut CUDA_MEMCPY3D,
    ids: [u32; 2],
) -> Result<Vec<Box<dyn Any + Send>>> {
    let mut keep: Vec<Box<dyn Any + Send>> = Vec::new();
    let rows = |pitch, slice| Rows {
        width: c.WidthInBytes,
        height: c.Height,
        depth: c.Depth,
        pitch,
        slice,
    };
    let (src, dst) = (rows(c.srcPitch, c.srcHeight), rows(c.dstPitch, c.dstHeight));
    if ids[0] != 0 {
        let named = Named {
            kind: c.srcMemoryType,
            at: [c.srcXInBytes, c.srcY, c.srcZ],
            written: false,
        };
        let m = make(w, ids[0], (c.srcHost as u64, src), named)?;
        c.srcMemoryType = CU_MEMORYTYPE_HOST as _;
        c.srcHost = m.ptr as *const c_void;
        (c.srcXInBytes, c.srcY, c.srcZ, c.srcLOD) = (0, 0, 0, 0);
        keep.push(Box::new(m));
    }
    if ids[1] != 0 {
        let named = Named {
            kind: c.dstMemoryType,
            at: [c.dstXInBytes, c.dstY, c.dstZ],
            written: true,
        };
        let m = make(w, ids[1], (c.dstHost as u64, dst), named)?;
        c.dstMemoryType = CU_MEMORYTYPE_HOST as _;
        c.dstHost = m.ptr as *mut c_void;
        (c.dstXInBytes, c.dstY, c.dstZ, c.dstLOD) = (0, 0, 0, 0);
        keep.push(Box::new(m));
    }
    Ok(keep)
}

unsafe extern "C" fn release(data: *mut c_void) {
    // SAFETY: made by `attach` for this one call.
    drop(unsafe { Box::from_raw(data.cast::<Box<dyn Any + Send>>()) });
}

const NO_DESTRUCTOR_SYNC: u32 = 1;
const MOVE: u32 = 1;

/// Makes things live as long as a graph, its clones, and what is instantiated from them.
pub fn attach(w: &mut Cuda, graph: CUgraph, keep: Vec<Box<dyn Any + Send>>) -> Result {
    for k in keep {
        let data = Box::into_raw(Box::new(k)).cast();
        let mut object: CUuserObject = std::ptr::null_mut();
        // SAFETY: a pointer to a live handle; `release` takes what `data` is.
        let rc = unsafe {
            w.cuUserObjectCreate(&mut object, data, Some(release), 1, NO_DESTRUCTOR_SYNC)
        };
        if rc != CUDA_SUCCESS {
            // SAFETY: nobody else has it.
            unsafe { release(data) };
            return Err(rc);
        }
        // SAFETY: a live graph and object.
        check(unsafe { w.cuGraphRetainUserObject(graph, object, 1, MOVE) })
            // SAFETY: a live object.
            .inspect_err(|_| _ = unsafe { w.cuUserObjectRelease(object, 1) })?;
    }
    Ok(())
}

pub fn capture_copy(w: &mut Cuda, m: msg::CaptureCopy<'_>) -> Result<msg::CaptureCopyReply, Fail> {
    let mut c: CUDA_MEMCPY3D = plain(m.shape)?;
    let stream = w.stream(m.stream)? as CUstream;
    let (graph, number) = match capture(w.driver, stream)? {
        (CU_STREAM_CAPTURE_STATUS_NONE, ..) => return Ok(msg::CaptureCopyReply { captured: 0 }),
        (CU_STREAM_CAPTURE_STATUS_ACTIVE, graph, number) => (graph, Some(number)),
        _ => return Err(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED.into()),
    };
    if m.arrays[0] != 0 {
        c.srcArray = w.handle(Kind::Array, m.arrays[0])? as CUarray;
    }
    if m.arrays[1] != 0 {
        c.dstArray = w.handle(Kind::Array, m.arrays[1])? as CUarray;
    }
    let keep = mirror(w, &mut c, m.mirrors)?;
    if m.mirrors[0] == 0 {
        check_captured_source(w, &c, number)?;
    }
    if m.mirrors[1] == 0 {
        check_captured_destination(w, &c, number)?;
    }
    attach(w, graph, keep)?;
    // SAFETY: the mirrors live as long as the graph; the driver checks the rest.
    unsafe { reach::rows(w, stream, &c)? };
    Ok(msg::CaptureCopyReply { captured: 1 })
}

/// Bytes on their way into a mirror in stream order.
struct Upload {
    mirror: Arc<Mirror>,
    offset: u64,
    from: *const u8,
    len: usize,
    _slab: Option<Lent>,
    _bytes: Vec<u8>,
}

impl Upload {
    fn copy(&self) -> Result {
        // SAFETY: `from` is in the slab or bytes beside it.
        let bytes = unsafe { std::slice::from_raw_parts(self.from, self.len) };
        self.mirror.write(self.offset, bytes)
    }
}

unsafe extern "C" fn upload(data: *mut c_void) {
    // SAFETY: made by `mirror_in` for this one run.
    let _ = unsafe { Box::from_raw(data.cast::<Upload>()) }.copy();
}

pub fn mirror_in(w: &mut Cuda, m: msg::MirrorIn<'_>) -> Result {
    let slab = w.slab.take();
    let mirror = w.graphs.mirrors.get(m.mirror)?;
    let stream = w.running_stream(m.stream)? as CUstream;
    let idle = mirror.is_idle();
    // Bytes in a slab stay where they are until they are needed.
    let bytes = if slab.is_some() || idle {
        Vec::new()
    } else {
        m.data.to_vec()
    };
    let from = if bytes.is_empty() {
        m.data.as_ptr()
    } else {
        bytes.as_ptr()
    };
    let u = Upload {
        mirror,
        offset: m.offset,
        from,
        len: m.data.len(),
        _slab: slab,
        _bytes: bytes,
    };
    if idle {
        return u.copy();
    }
    // An earlier launch may still read the mirror: its new content comes behind it. (A copy
    // between two places on the host would make this thread wait.)
    let data = Box::into_raw(Box::new(u));
    // SAFETY: a live stream; `upload` takes what `data` is.
    check(unsafe { w.cuLaunchHostFunc(stream, Some(upload), data.cast()) })
        // SAFETY: nobody else has it.
        .inspect_err(|_| drop(unsafe { Box::from_raw(data) }))
}

pub fn mirror_out(w: &mut Cuda, m: msg::MirrorOut) -> Result<Answered, Behind> {
    let (stream, ctx) = w.here(m.stream);
    w.stream(m.stream)?;
    let launched = w.graphs.execs.get(&m.exec).map_or(0, |e| e.launched);
    check(launched)?;
    let mirror = w.graphs.mirrors.get(m.mirror)?;
    let (call, outbox) = (w.record.call, w.outbox.clone());
    let send = move |rc| {
        match mirror.whole() {
            _ if rc != CUDA_SUCCESS => {}
            // SAFETY: the mirror's, which is kept. A later launch may write it meanwhile:
            // without Busbar it would write the program's memory at that time.
            Some(bytes) => unsafe { outbox.put_owned(call, 0, bytes, mirror) },
            None => outbox.chunk(call, 0, &mirror.read()),
        }
        outbox.reply(call, rc, |_| {});
    };
    w.completer.after(stream, ctx, Then::Run(Box::new(send)));
    Ok(Answered)
}

pub fn run_promised(_w: &mut Cuda, _m: msg::RunPromised) -> Result<(), WireError> {
    // It goes the other way only.
    Err(WireError::BadValue("direction"))
}

/// A user object of the program's: its destructor runs there.
struct Destructor {
    promised: Promised,
    /// One that was not made is not destroyed.
    made: Arc<AtomicBool>,
}

impl Drop for Destructor {
    fn drop(&mut self) {
        if self.made.load(Ordering::Acquire) {
            self.promised.run_some_time();
        }
    }
}

/// See [`super::user_object`].
pub fn user_object_create(w: &mut Cuda, m: msg::UserObjectCreate) -> Result {
    let promised = w.promises.take(m.token, true);
    let made = Arc::new(AtomicBool::new(false));
    let d: Box<dyn Any + Send> = Box::new(Destructor {
        promised,
        made: made.clone(),
    });
    let data = Box::into_raw(Box::new(d));
    let mut object: CUuserObject = std::ptr::null_mut();
    // SAFETY: a pointer to a live handle; `release` takes what `data` is.
    check(unsafe {
        w.cuUserObjectCreate(
            &mut object,
            data.cast(),
            Some(release),
            m.count,
            NO_DESTRUCTOR_SYNC,
        )
    })
    // SAFETY: nobody else has it.
    .inspect_err(|_| drop(unsafe { Box::from_raw(data) }))?;
    made.store(true, Ordering::Release);
    w.made(&m, object as u64);
    Ok(())
}
