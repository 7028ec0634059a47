//! Copies of rows: pitched memory, arrays, boxes.
//!
//! What lies on the host travels packed, without the gaps between its rows.

use super::array;
use super::context;
use super::copy::{self, must_be_on_device, on_host};
use super::copy_across;
use super::graph_host::{self, HostBox};
use super::handles;
use super::memory;
use super::runtime::{Cx, enter, guard};
use super::{settled, shadow, stream};
use busbar_abi::cuda::*;
use busbar_channel::Bulk;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::ffi::c_void;

pub(super) const HOST: u32 = CU_MEMORYTYPE_HOST;
pub(super) const DEVICE: u32 = CU_MEMORYTYPE_DEVICE;
const ARRAY: u32 = CU_MEMORYTYPE_ARRAY;
const UNIFIED: u32 = CU_MEMORYTYPE_UNIFIED;

/// Bytes of packed rows in one record.
const CHUNK: usize = crate::session::CHUNK;
/// Bytes of packed rows in one answer.
const ROOM: usize = 32 << 20;

/// One end of a copy.
#[derive(Clone, Copy, Default)]
pub(super) struct End {
    pub(super) memory: u32,
    pub(super) host: u64,
    pub(super) device: u64,
    pub(super) array: u64,
    pub(super) context: u64,
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) z: usize,
    pub(super) lod: usize,
    pub(super) pitch: usize,
    pub(super) height: usize,
}

impl End {
    pub(super) const HOST: u32 = HOST;
    pub(super) const DEVICE: u32 = DEVICE;
    pub(super) const ARRAY: u32 = ARRAY;

    /// The context that what lies on a device was made in, and the device.
    fn home(&self) -> Option<(u32, CUdevice)> {
        match self.memory {
            DEVICE => copy_across::home(self.device),
            ARRAY => {
                let id = handles::id(Kind::Array, self.array)?;
                let context = handles::context(Kind::Array, id);
                Some((context, context::info(context)?.device))
            }
            _ => None,
        }
    }

    /// Settles what an address of unified memory is, and what a zero pitch means.
    fn settle(mut self, width: usize, height: usize) -> Self {
        let p = self.device;
        // Page-locked memory has an address on the device, which is the program's own.
        let pinned = self.memory == DEVICE && memory::is_pinned(p, 1);
        if self.memory == UNIFIED || pinned {
            self.memory = if on_host(p) { HOST } else { DEVICE };
            self.host = p;
        }
        if self.pitch == 0 {
            self.pitch = width;
        }
        if self.height == 0 {
            self.height = height;
        }
        self
    }

    /// Where the first and the last row of a box begin, from where this end does; `None` when no
    /// address can be that far away.
    fn extent(&self, r: &Rows) -> Option<(u64, u64)> {
        let row = |y: usize, z: usize| {
            let rows = z.checked_mul(self.height)?.checked_add(y)?;
            let at = rows.checked_mul(self.pitch)?.checked_add(self.x)?;
            at.checked_add(r.width)?;
            Some(at as u64)
        };
        let last = |at: usize, n: usize| at.checked_add(n - 1);
        let (y, z) = (last(self.y, r.height)?, last(self.z, r.depth)?);
        Some((row(self.y, self.z)?, row(y, z)?))
    }

    /// Refuses an end that is not there, as the driver does.
    fn check(&self, r: &Rows) -> Result<(), CUresult> {
        const BAD: CUresult = CUDA_ERROR_INVALID_VALUE;
        let (first, last) = self.extent(r).ok_or(BAD)?;
        match self.memory {
            HOST if self.host == 0 => Err(BAD),
            HOST => self.host.checked_add(last).map(drop).ok_or(BAD),
            DEVICE => {
                for row in [first, last] {
                    let p = self.device.checked_add(row).ok_or(BAD)?;
                    must_be_on_device(p, r.width)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The address of a row's first byte on the host.
    pub(super) fn row(&self, y: usize, z: usize) -> u64 {
        let rows = (self.z + z) * self.height + self.y + y;
        self.host + (rows * self.pitch + self.x) as u64
    }
}

/// A copy of a box of bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct Rows {
    pub(super) src: End,
    pub(super) dst: End,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) depth: usize,
}

impl Rows {
    /// With the ends settled.
    pub(super) fn settled(&self) -> Self {
        Self {
            src: self.src.settle(self.width, self.height),
            dst: self.dst.settle(self.width, self.height),
            ..*self
        }
    }

    /// The same from a column, row and slice on, and no more than so many of each.
    fn part(&self, [x, y, z]: [usize; 3], [width, height, depth]: [usize; 3]) -> Self {
        let from = |mut e: End| {
            (e.x, e.y, e.z) = (e.x + x, e.y + y, e.z + z);
            e
        };
        Self {
            src: from(self.src),
            dst: from(self.dst),
            width: width.min(self.width - x),
            height: height.min(self.height - y),
            depth: depth.min(self.depth - z),
        }
    }

    /// Stripes of rows that each fit a record.
    fn stripes(self) -> impl Iterator<Item = Self> {
        let at = (0..self.width).step_by(CHUNK);
        at.map(move |x| self.part([x, 0, 0], [CHUNK, usize::MAX, usize::MAX]))
    }

    /// Boxes of about as many bytes as an answer has room for.
    fn boxes(self) -> impl Iterator<Item = Self> {
        let rows = (ROOM / self.width).max(1);
        let (height, depth) = match rows / self.height {
            0 => (rows, 1),
            slices => (self.height, slices),
        };
        let slices = (0..self.depth).step_by(depth);
        slices.flat_map(move |z| {
            let rows = (0..self.height).step_by(height);
            rows.map(move |y| self.part([0, y, z], [usize::MAX, height, depth]))
        })
    }

    /// The program's memory that the box is copied to, or from.
    fn host(&self, end: End) -> HostBox {
        HostBox {
            end,
            width: self.width,
            height: self.height,
            depth: self.depth,
        }
    }
}

pub(super) fn shape(r: &Rows) -> CUDA_MEMCPY3D {
    let mut c: CUDA_MEMCPY3D = busbar_abi::zeroed();
    c.srcXInBytes = r.src.x;
    c.srcY = r.src.y;
    c.srcZ = r.src.z;
    c.srcLOD = r.src.lod;
    c.srcMemoryType = r.src.memory as _;
    c.srcDevice = r.src.device as _;
    c.srcPitch = r.src.pitch;
    c.srcHeight = r.src.height;
    c.dstXInBytes = r.dst.x;
    c.dstY = r.dst.y;
    c.dstZ = r.dst.z;
    c.dstLOD = r.dst.lod;
    c.dstMemoryType = r.dst.memory as _;
    c.dstDevice = r.dst.device as _;
    c.dstPitch = r.dst.pitch;
    c.dstHeight = r.dst.height;
    c.WidthInBytes = r.width;
    c.Height = r.height;
    c.Depth = r.depth;
    c
}

fn array_id(cx: Cx, e: &End) -> Result<u32, CUresult> {
    if e.memory == ARRAY {
        cx.handle(Kind::Array, e.array)
    } else {
        Ok(0)
    }
}

/// Sends rows from the host.
unsafe fn rows_in(cx: Cx, r: &Rows, stream: u32) -> Result<(), CUresult> {
    for stripe in r.stripes() {
        // SAFETY: passed on to the caller.
        unsafe { stripe_in(cx, &stripe, stream)? };
    }
    Ok(())
}

/// Sends short rows from the host, as many in each record as fit.
unsafe fn stripe_in(cx: Cx, r: &Rows, stream: u32) -> Result<(), CUresult> {
    let array = array_id(cx, &r.dst)?;
    let at_once = (CHUNK / r.width).max(1);
    let mut packed = Vec::with_capacity(CHUNK.min(r.width * r.height));
    for z in 0..r.depth {
        let mut y = 0;
        while y < r.height {
            let n = at_once.min(r.height - y);
            packed.clear();
            for i in y..y + n {
                // SAFETY: a row of the program's box.
                packed.extend_from_slice(unsafe {
                    std::slice::from_raw_parts(r.src.row(i, z) as *const u8, r.width)
                });
            }
            let mut part = Rows {
                height: n,
                depth: 1,
                ..*r
            };
            part.dst.y += y;
            part.dst.z += z;
            let s = shape(&part);
            let m = msg::CopyInRows {
                shape: busbar_abi::bytes_of(&s),
                array,
                stream,
                data: &[],
            };
            cx.send_bulk(&m, Bulk::Copy(&packed))?;
            y += n;
        }
    }
    Ok(())
}

/// Fetches rows. Those that go to page-locked memory arrive by themselves, if they may come
/// `later`.
unsafe fn rows_out(cx: Cx, r: &Rows, stream: u32, later: bool) -> Result<(), CUresult> {
    let array = array_id(cx, &r.src)?;
    for r in r.stripes().flat_map(Rows::boxes) {
        let s = shape(&r);
        let to = r.host(r.dst);
        let len = r.width * r.height * r.depth;
        let m = msg::CopyOutRows {
            shape: busbar_abi::bytes_of(&s),
            array,
            len: len as u64,
            stream,
        };
        let mut packed = vec![0u8; len];
        let place = (packed.as_mut_ptr(), len);
        let (start, span) = to.span();
        // The receiving thread must not meet a page that is closed to the program.
        let open = memory::is_pinned(start, span) && shadow::device_side(start, 1).is_none();
        if later && open {
            let put = move |arrived: bool| {
                if arrived {
                    // SAFETY: page-locked memory stays until it is freed, and freeing it waits for
                    // copies.
                    unsafe { to.scatter(&packed) };
                }
            };
            // SAFETY: the closure keeps the bytes.
            unsafe { copy::later(cx, &m, place, to.arriving(), put)? };
            continue;
        }
        cx.call_into(&m, Some(place))?;
        // SAFETY: passed on to the caller.
        unsafe { to.scatter(&packed) };
    }
    Ok(())
}

/// Copies a box of bytes.
///
/// # Safety
/// What of the box lies on the host is the program's.
pub(super) unsafe fn copy_box(
    cx: Cx,
    r: Rows,
    stream: u32,
    peer: bool,
    later: bool,
) -> Result<(), CUresult> {
    if r.width == 0 || r.height == 0 || r.depth == 0 {
        return Ok(());
    }
    let box_bytes = r
        .width
        .checked_mul(r.height)
        .and_then(|n| n.checked_mul(r.depth));
    box_bytes
        .filter(|n| *n < 1 << 46)
        .ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let r = r.settled();
    let ends = [&r.src, &r.dst];
    if ends.iter().any(|e| e.memory != ARRAY && e.pitch < r.width) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    for e in ends {
        e.check(&r)?;
        if e.memory == ARRAY {
            let shape = array::shape(cx, cx.handle(Kind::Array, e.array)?)?;
            if !shape.holds([e.x, e.y, e.z], [r.width, r.height, r.depth]) {
                return Err(CUDA_ERROR_INVALID_VALUE);
            }
        }
    }
    if shadow::active() {
        shadow::work(cx, stream, false)?;
    }
    let host = r.src.memory == HOST || r.dst.memory == HOST;
    if host && stream::capturing() {
        if !later {
            stream::refuse_wait(cx, stream)?;
        } else if graph_host::capture(cx, &r, stream)? {
            return Ok(());
        }
    }
    // SAFETY: passed on to the caller.
    unsafe {
        match (r.src.memory, r.dst.memory) {
            (HOST, HOST) => {
                cx.call(&msg::CuStreamSynchronize { h_stream: stream })?;
                for z in 0..r.depth {
                    for y in 0..r.height {
                        let (from, to) = (r.src.row(y, z), r.dst.row(y, z));
                        std::ptr::copy(from as *const u8, to as *mut u8, r.width);
                    }
                }
                Ok(())
            }
            (HOST, DEVICE | ARRAY) => {
                let (p, n) = r.host(r.src).span();
                let before = match later {
                    true if memory::is_pinned(p, n) && copy::is_due(p, n) => cx
                        .call(&msg::CuStreamSynchronize { h_stream: stream })
                        .map(drop),
                    true => Ok(()),
                    false => settled::before(cx, stream, p, n),
                };
                let there = |cx| rows_in(cx, &r, 0);
                copy_across::in_context_of(cx, r.dst.home(), stream, there)
                    .unwrap_or_else(|| rows_in(cx, &r, stream))?;
                if !later {
                    settled::after(cx, stream)?;
                }
                before
            }
            (DEVICE | ARRAY, HOST) => {
                let there = |cx| rows_out(cx, &r, 0, false);
                copy_across::in_context_of(cx, r.src.home(), stream, there)
                    .unwrap_or_else(|| rows_out(cx, &r, stream, later))
            }
            (DEVICE | ARRAY, DEVICE | ARRAY) => on_device(cx, &r, stream, peer),
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }
}

/// Queues the copy of a box that the host sees nothing of.
fn on_device(cx: Cx, r: &Rows, stream: u32, peer: bool) -> Result<(), CUresult> {
    let s = shape(r);
    let mut m = msg::CopyRowsOnDevice {
        shape: busbar_abi::bytes_of(&s),
        src_array: array_id(cx, &r.src)?,
        dst_array: array_id(cx, &r.dst)?,
        src_context: cx.handle_opt(Kind::Context, r.src.context)?,
        dst_context: cx.handle_opt(Kind::Context, r.dst.context)?,
        peer: u32::from(peer),
        stream,
    };
    if !peer
        && cx.rt.devices.len() > 1
        && let (Some((from, a)), Some((to, b))) = (r.src.home(), r.dst.home())
        && (a != b || context::current_device(cx)? != a)
    {
        (m.src_context, m.dst_context, m.peer) = (from, to, 1);
    }
    cx.send(&m)
}

fn from_2d(c: &CUDA_MEMCPY2D) -> Rows {
    let src = End {
        memory: c.srcMemoryType,
        host: c.srcHost as u64,
        device: c.srcDevice,
        array: c.srcArray as u64,
        x: c.srcXInBytes,
        y: c.srcY,
        pitch: c.srcPitch,
        ..End::default()
    };
    let dst = End {
        memory: c.dstMemoryType,
        host: c.dstHost as u64,
        device: c.dstDevice,
        array: c.dstArray as u64,
        x: c.dstXInBytes,
        y: c.dstY,
        pitch: c.dstPitch,
        ..End::default()
    };
    Rows {
        src,
        dst,
        width: c.WidthInBytes,
        height: c.Height,
        depth: 1,
    }
}

macro_rules! from_3d {
    ($c:expr, $src_ctx:expr, $dst_ctx:expr) => {{
        let c = $c;
        let src = End {
            memory: c.srcMemoryType as u32,
            host: c.srcHost as u64,
            device: c.srcDevice,
            array: c.srcArray as u64,
            context: $src_ctx,
            x: c.srcXInBytes,
            y: c.srcY,
            z: c.srcZ,
            lod: c.srcLOD,
            pitch: c.srcPitch,
            height: c.srcHeight,
        };
        let dst = End {
            memory: c.dstMemoryType as u32,
            host: c.dstHost as u64,
            device: c.dstDevice,
            array: c.dstArray as u64,
            context: $dst_ctx,
            x: c.dstXInBytes,
            y: c.dstY,
            z: c.dstZ,
            lod: c.dstLOD,
            pitch: c.dstPitch,
            height: c.dstHeight,
        };
        Rows {
            src,
            dst,
            width: c.WidthInBytes,
            height: c.Height,
            depth: c.Depth,
        }
    }};
}

unsafe fn run<T>(
    p: *const T,
    stream: CUstream,
    per_thread: bool,
    peer: bool,
    later: bool,
    rows: impl FnOnce(&T) -> Rows,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        cx.need_context()?;
        // SAFETY: the program's pointer.
        let c = unsafe { p.as_ref() }.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let stream = stream::id(cx, stream, per_thread)?;
        // SAFETY: the program's box.
        unsafe { copy_box(cx, rows(c), stream, peer, later) }
    })
}

const NONE: CUstream = std::ptr::null_mut();

pub(super) unsafe fn cuMemcpy2D_v2(p: *const CUDA_MEMCPY2D, per_thread: bool) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { run(p, NONE, per_thread, false, false, from_2d) }
}

pub(super) unsafe fn cuMemcpy2DUnaligned_v2(p: *const CUDA_MEMCPY2D, per_thread: bool) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { run(p, NONE, per_thread, false, false, from_2d) }
}

pub(super) unsafe fn cuMemcpy2DAsync_v2(
    p: *const CUDA_MEMCPY2D,
    stream: CUstream,
    per_thread: bool,
) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { run(p, stream, per_thread, false, true, from_2d) }
}

pub(super) unsafe fn cuMemcpy3D_v2(p: *const CUDA_MEMCPY3D, per_thread: bool) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { run(p, NONE, per_thread, false, false, |c| from_3d!(c, 0, 0)) }
}

pub(super) unsafe fn cuMemcpy3DAsync_v2(
    p: *const CUDA_MEMCPY3D,
    stream: CUstream,
    per_thread: bool,
) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { run(p, stream, per_thread, false, true, |c| from_3d!(c, 0, 0)) }
}

pub(super) unsafe fn cuMemcpy3DPeer(p: *const CUDA_MEMCPY3D_PEER, per_thread: bool) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe {
        run(p, NONE, per_thread, true, false, |c| {
            from_3d!(c, c.srcContext as u64, c.dstContext as u64)
        })
    }
}

pub(super) unsafe fn cuMemcpy3DPeerAsync(
    p: *const CUDA_MEMCPY3D_PEER,
    stream: CUstream,
    per_thread: bool,
) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe {
        run(p, stream, per_thread, true, true, |c| {
            from_3d!(c, c.srcContext as u64, c.dstContext as u64)
        })
    }
}

/// One row of an array, from a byte on.
fn in_array(a: CUarray, offset: usize) -> End {
    End {
        memory: ARRAY,
        array: a as u64,
        x: offset,
        ..End::default()
    }
}

fn at(memory: u32, p: u64) -> End {
    End {
        memory,
        host: p,
        device: p,
        ..End::default()
    }
}

fn line(src: End, dst: End, width: usize, stream: Option<CUstream>, per_thread: bool) -> CUresult {
    let (later, stream) = (stream.is_some(), stream.unwrap_or(NONE));
    let r = Rows {
        src,
        dst,
        width,
        height: 1,
        depth: 1,
    };
    // SAFETY: the box is one row, whose bytes are the program's.
    unsafe { run(&raw const r, stream, per_thread, false, later, |r| *r) }
}

pub(super) unsafe fn cuMemcpyAtoA_v2(
    dst: CUarray,
    dst_at: usize,
    src: CUarray,
    src_at: usize,
    n: usize,
    per_thread: bool,
) -> CUresult {
    line(
        in_array(src, src_at),
        in_array(dst, dst_at),
        n,
        None,
        per_thread,
    )
}

pub(super) unsafe fn cuMemcpyAtoD_v2(
    dst: CUdeviceptr,
    src: CUarray,
    src_at: usize,
    n: usize,
    per_thread: bool,
) -> CUresult {
    line(in_array(src, src_at), at(DEVICE, dst), n, None, per_thread)
}

pub(super) unsafe fn cuMemcpyDtoA_v2(
    dst: CUarray,
    dst_at: usize,
    src: CUdeviceptr,
    n: usize,
    per_thread: bool,
) -> CUresult {
    line(at(DEVICE, src), in_array(dst, dst_at), n, None, per_thread)
}

pub(super) unsafe fn cuMemcpyAtoH_v2(
    dst: *mut c_void,
    src: CUarray,
    src_at: usize,
    n: usize,
    per_thread: bool,
) -> CUresult {
    line(
        in_array(src, src_at),
        at(HOST, dst as u64),
        n,
        None,
        per_thread,
    )
}

pub(super) unsafe fn cuMemcpyAtoHAsync_v2(
    dst: *mut c_void,
    src: CUarray,
    src_at: usize,
    n: usize,
    stream: CUstream,
    per_thread: bool,
) -> CUresult {
    line(
        in_array(src, src_at),
        at(HOST, dst as u64),
        n,
        Some(stream),
        per_thread,
    )
}

pub(super) unsafe fn cuMemcpyHtoA_v2(
    dst: CUarray,
    dst_at: usize,
    src: *const c_void,
    n: usize,
    per_thread: bool,
) -> CUresult {
    line(
        at(HOST, src as u64),
        in_array(dst, dst_at),
        n,
        None,
        per_thread,
    )
}

pub(super) unsafe fn cuMemcpyHtoAAsync_v2(
    dst: CUarray,
    dst_at: usize,
    src: *const c_void,
    n: usize,
    stream: CUstream,
    per_thread: bool,
) -> CUresult {
    line(
        at(HOST, src as u64),
        in_array(dst, dst_at),
        n,
        Some(stream),
        per_thread,
    )
}

/// The copy that a node's parameters describe.
pub(super) fn rows_of(c: &CUDA_MEMCPY3D) -> Rows {
    from_3d!(c, 0, 0)
}
