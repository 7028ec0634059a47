//! The pieces of work of which streams and graphs are made.

use super::context::Context;
use super::event::{Event, Record};
use super::graph_memory::GraphMemory;
use super::launch::Launch;
use super::memory;
use crate::ffi::*;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// One piece of work, also the content of a graph's node.
#[derive(Clone)]
pub enum Work {
    /// A kernel.
    Kernel(Arc<Launch>),
    /// A copy.
    Copy(Arc<Copy>),
    /// A fill.
    Fill(Fill),
    /// A function on the host; skipped when the context is broken.
    Host(HostCall),
    /// A stream callback: gets the context's status, also when the context is broken.
    Callback(CUstreamCallback, usize),
    /// Completes an event's record.
    Record(Arc<Record>),
    /// Waits for an event's record.
    Wait(Arc<Record>),
    /// A graph's node that completes what its event was last armed with.
    RecordNode(Arc<Event>),
    /// A graph's node that waits for what its event last recorded.
    WaitNode(Arc<Event>),
    /// Waits until a value in memory compares.
    WaitValue(Value),
    /// Writes a value to memory.
    WriteValue(Value),
    /// Gives memory of a pool back.
    FreeAsync(CUdeviceptr),
    /// Memory of a graph is there.
    Allocate(Arc<GraphMemory>),
    /// Memory of a graph is there no longer.
    Free(Arc<GraphMemory>),
    /// Several pieces in order: a graph.
    All(Arc<Vec<(CUgraphNode, Work)>>),
    /// Nothing: orders other nodes.
    Empty,
}

impl Work {
    /// Whether a stream does not take it: words of memory that moves by itself, or of a pool's. In
    /// a graph they may be; the graph is refused when it is launched.
    pub fn is_refused(&self) -> bool {
        match self {
            Self::WaitValue(v) | Self::WriteValue(v) => memory::find(v.addr)
                .is_some_and(|r| matches!(r.kind, memory::Kind::Managed | memory::Kind::Pool)),
            Self::All(all) => all.iter().any(|(_, work)| work.is_refused()),
            _ => false,
        }
    }

    /// Whether the device alone does it, at once.
    pub fn runs_on_the_device(&self) -> bool {
        match self {
            Self::Kernel(_) | Self::Fill(_) | Self::All(_) => true,
            Self::Copy(c) => c.dst.device && c.src.device,
            _ => false,
        }
    }
}

/// A function on the host and its argument.
#[derive(Clone, Copy)]
pub struct HostCall {
    /// The function.
    pub f: CUhostFn,
    /// Its argument, an address that only the program understands.
    pub user: usize,
}

/// One end of a copy.
#[derive(Clone, Copy)]
pub struct Plane {
    /// The first byte's address.
    pub addr: u64,
    /// Bytes from one row to the next.
    pub pitch: usize,
    /// Bytes from one slice to the next.
    pub slice: usize,
    /// Whether this must be memory that the device knows.
    pub device: bool,
}

impl Plane {
    fn end(&self, width: usize, height: usize, depth: usize) -> Option<usize> {
        let rows = self.pitch.checked_mul(height - 1)?;
        self.slice
            .checked_mul(depth - 1)?
            .checked_add(rows)?
            .checked_add(width)
    }
}

/// A copy of `depth` slices of `height` rows of `width` bytes.
#[derive(Clone)]
pub struct Copy {
    /// Where to.
    pub dst: Plane,
    /// Where from.
    pub src: Plane,
    /// Bytes in a row.
    pub width: usize,
    /// Rows in a slice.
    pub height: usize,
    /// Slices.
    pub depth: usize,
    /// The source's bytes, where they were taken when the copy was asked for.
    pub staged: Option<Vec<u8>>,
    /// The call's own description, where it was one: a node gives it back.
    pub params: Option<Memcpy3D>,
}

/// A fill of `height` rows of `width` elements.
#[derive(Clone, Copy)]
pub struct Fill {
    /// The first byte's address.
    pub dst: u64,
    /// Bytes from one row to the next.
    pub pitch: usize,
    /// The element's value.
    pub value: u32,
    /// The element's bytes: 1, 2 or 4.
    pub element: usize,
    /// Elements in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// The context that it is for: a node's is not changed.
    pub context: usize,
}

/// A value in memory, for a wait or a write.
#[derive(Clone, Copy)]
pub struct Value {
    /// Where.
    pub addr: u64,
    /// What.
    pub value: u64,
    /// Whether it has 64 bits.
    pub wide: bool,
    /// How a wait compares: 0 at least, 1 equal, 2 and, 3 nor.
    pub how: u32,
}

impl Work {
    /// Whether it would wait for nothing.
    pub fn is_ready(&self, context: &Context) -> bool {
        match self {
            // A broken context's work is skipped.
            _ if context.status().is_err() => true,
            Work::Wait(record) => record.time().is_some(),
            Work::WaitNode(event) => event.recorded().is_none_or(|r| r.time().is_some()),
            Work::WaitValue(value) => value.holds() != Ok(false),
            Work::All(list) => list.iter().all(|(_, work)| work.is_ready(context)),
            _ => true,
        }
    }
}

impl Copy {
    /// A copy of one row.
    pub fn flat(dst: u64, dst_device: bool, src: u64, src_device: bool, n: usize) -> Copy {
        let plane = |addr, device| Plane {
            addr,
            pitch: n,
            slice: n,
            device,
        };
        Copy {
            dst: plane(dst, dst_device),
            src: plane(src, src_device),
            width: n,
            height: 1,
            depth: 1,
            staged: None,
            params: None,
        }
    }

    /// Whether there is nothing to copy.
    pub fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0 || self.depth == 0
    }

    /// Whether each end that must be the device's is memory that it knows to be good.
    pub fn check(&self, good: impl Fn(u64, usize) -> bool) -> bool {
        self.check_ends(&good, &good)
    }

    /// The same, of the destination and of the source.
    pub fn check_ends(
        &self,
        dst: impl Fn(u64, usize) -> bool,
        src: impl Fn(u64, usize) -> bool,
    ) -> bool {
        let ok = |plane: &Plane, good: &dyn Fn(u64, usize) -> bool| {
            plane
                .end(self.width, self.height, self.depth)
                .is_some_and(|end| {
                    plane.addr.checked_add(end as u64).is_some()
                        && (!plane.device || good(plane.addr, end))
                })
        };
        self.is_empty() || (ok(&self.dst, &dst) && (self.staged.is_some() || ok(&self.src, &src)))
    }

    /// The first address and the length of each end on the host.
    pub fn ends_on_host(&self) -> impl Iterator<Item = (u64, usize)> {
        let host = [&self.dst, &self.src].into_iter().filter(|p| !p.device);
        let whole = |p: &Plane| Some((p.addr, p.end(self.width, self.height, self.depth)?));
        host.filter_map(whole)
    }

    /// Address and end of what one of its ends is, if that is host memory which the driver does not
    /// know: what is page-locked is in its map.
    pub fn pageable(&self, end: &Plane) -> Option<(u64, u64)> {
        if end.device || self.is_empty() || memory::find(end.addr).is_some() {
            return None;
        }
        let n = end.end(self.width, self.height, self.depth)?;
        Some((end.addr, end.addr + n as u64))
    }

    /// Takes the source's bytes now, packed.
    pub fn stage(&mut self) {
        if self.is_empty() {
            return;
        }
        let mut bytes = Vec::with_capacity(self.width * self.height * self.depth);
        self.rows(|_, src| {
            // SAFETY: the program gave this host memory as the source of the copy.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(src, self.width) });
        });
        self.staged = Some(bytes);
        self.src.pitch = self.width;
        self.src.slice = self.width * self.height;
    }

    fn rows(&self, mut f: impl FnMut(*mut u8, *const u8)) {
        let src = self
            .staged
            .as_ref()
            .map_or(self.src.addr, |bytes| bytes.as_ptr() as u64);
        for z in 0..self.depth {
            for y in 0..self.height {
                let to = self.dst.addr as usize + z * self.dst.slice + y * self.dst.pitch;
                let from = src as usize + z * self.src.slice + y * self.src.pitch;
                f(to as *mut u8, from as *const u8);
            }
        }
    }

    /// Does it.
    pub fn run(&self) -> Res {
        if !self.check(memory::accessible) {
            return Err(ILLEGAL_ADDRESS);
        }
        if !self.is_empty() {
            self.rows(|to, from| {
                // SAFETY: the device's ends are live memory, just checked; a host's end is the
                // program's promise, as with the real driver.
                unsafe { ptr::copy(from, to, self.width) };
            });
        }
        Ok(())
    }
}

impl Fill {
    /// The fill's bytes from its first to its last; None when that does not fit an address.
    pub fn span(&self) -> Option<usize> {
        if self.width == 0 || self.height == 0 {
            return Some(0);
        }
        let row = self.width.checked_mul(self.element)?;
        self.pitch.checked_mul(self.height - 1)?.checked_add(row)
    }

    /// Does it.
    pub fn run(&self) -> Res {
        let span = self.span().ok_or(ILLEGAL_ADDRESS)?;
        if !memory::accessible(self.dst, span) {
            return Err(ILLEGAL_ADDRESS);
        }
        for y in 0..if span == 0 { 0 } else { self.height } {
            let row = self.dst as usize + y * self.pitch;
            // SAFETY: the whole span is live device memory, just checked, and the call checked that
            // the address is a multiple of the element's size.
            unsafe {
                match self.element {
                    1 => ptr::write_bytes(row as *mut u8, self.value as u8, self.width),
                    2 => std::slice::from_raw_parts_mut(row as *mut u16, self.width)
                        .fill(self.value as u16),
                    _ => {
                        std::slice::from_raw_parts_mut(row as *mut u32, self.width).fill(self.value)
                    }
                }
            }
        }
        Ok(())
    }
}

impl Value {
    fn load(&self) -> R<u64> {
        if !memory::accessible(self.addr, if self.wide { 8 } else { 4 }) {
            return Err(ILLEGAL_ADDRESS);
        }
        // SAFETY: live memory, just checked, and the call checked the address's alignment.
        Ok(unsafe {
            if self.wide {
                (*(self.addr as *const AtomicU64)).load(Ordering::Acquire)
            } else {
                u64::from((*(self.addr as *const AtomicU32)).load(Ordering::Acquire))
            }
        })
    }

    fn holds(&self) -> R<bool> {
        let now = self.load()?;
        Ok(match (self.how, self.wide) {
            // "At least" is cyclic: the difference is not negative.
            (0, true) => now.wrapping_sub(self.value) as i64 >= 0,
            (0, false) => (now as u32).wrapping_sub(self.value as u32) as i32 >= 0,
            (1, _) => now == self.value,
            (2, _) => now & self.value != 0,
            (_, true) => !(now | self.value) != 0,
            (_, false) => !(now | self.value) as u32 != 0,
        })
    }

    /// Waits until it compares, or the context breaks.
    pub fn wait(&self, context: &Context) -> Res {
        while !self.holds()? {
            // A broken context's streams end; they do not wait for what will not come.
            context.status()?;
            std::thread::sleep(Duration::from_micros(20));
        }
        Ok(())
    }

    /// Writes it.
    pub fn write(&self) -> Res {
        self.load()?;
        // SAFETY: live memory, just checked, and the call checked the address's alignment.
        unsafe {
            if self.wide {
                (*(self.addr as *const AtomicU64)).store(self.value, Ordering::Release);
            } else {
                (*(self.addr as *const AtomicU32)).store(self.value as u32, Ordering::Release);
            }
        }
        Ok(())
    }
}
