//! The program's memory where kernels touch it, too: its pages, and the way to the device's side.

use super::accesses;
use super::cx::Cx;
use super::fault;
use crate::cuda::state::area::{ANY, Beside, Change, Pages};
use crate::cuda::state::shadows::{Far, Suspects, Touch};
use busbar_abi::cuda::*;
use busbar_wire::atomics::Atomic;
use busbar_wire::codec::Request as _;
use busbar_wire::generated::cuda as msg;
use busbar_wire::record::Heard;
use std::ffi::c_void;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;

/// The pages of this process.
pub struct Host;

impl Pages for Host {
    fn protect(&self, at: u64, len: u64, rights: i32) -> Result<()> {
        // SAFETY: whole pages of memory that an area guards.
        if unsafe { libc::mprotect(at as *mut c_void, len as usize, rights) } == 0 {
            return Ok(());
        }
        let e = std::io::Error::last_os_error();
        crate::log!(Error, "cannot protect {len:#x} bytes at {at:#x}: {e}");
        Err(CUDA_ERROR_OPERATING_SYSTEM)
    }

    fn bytes(&self, at: u64, len: usize) -> &[u8] {
        // SAFETY: memory of an area, which may be read in its present state: it stays as long as
        // the area does, and edges are never closed.
        unsafe { std::slice::from_raw_parts(at as *const u8, len) }
    }

    fn merge(&self, change: &Change) {
        const WORD: u64 = 8;
        let (at, end) = (change.at, change.at + change.new.len() as u64);
        for word in ((at & !(WORD - 1))..end).step_by(WORD as usize) {
            let (mut bytes, mut ours) = ([0; WORD as usize], [0; WORD as usize]);
            for p in word.max(at)..end.min(word + WORD) {
                let k = (p - word) as usize;
                (bytes[k], ours[k]) = (change.new[(p - at) as usize], 0xff);
            }
            let (bytes, ours) = (u64::from_ne_bytes(bytes), u64::from_ne_bytes(ours));
            // SAFETY: an aligned word of a page in which the program has memory that it may write.
            let there = unsafe { AtomicU64::from_ptr(word as *mut u64) };
            let merged = |now| Some(now & !ours | bytes);
            let _ = there.fetch_update(Ordering::AcqRel, Ordering::Acquire, merged);
        }
    }

    fn peek(&self, at: u64, to: &mut [u8]) -> bool {
        // The kernel reads closed pages, or says that it cannot.
        let memory = std::fs::File::open("/proc/self/mem");
        memory.is_ok_and(|m| m.read_exact_at(to, at).is_ok())
    }

    fn fill(&self, at: u64, bytes: &[u8]) -> Result<()> {
        // The kernel writes to closed pages, or says that it cannot.
        let memory = std::fs::OpenOptions::new()
            .write(true)
            .open("/proc/self/mem");
        if memory.is_ok_and(|m| m.write_all_at(bytes, at).is_ok()) {
            return Ok(());
        }
        // Where the kernel does not do that, the pages are open while they are filled.
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        self.protect(at, bytes.len() as u64, rights)?;
        // SAFETY: just opened.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
        Ok(())
    }

    fn watch(&self, at: u64, len: u64) -> Result<()> {
        fault::watch(at, len)
    }

    fn unwatch(&self, at: u64, len: u64) {
        fault::unwatch(at, len);
    }
}

impl Host {
    /// Opens what is closed of the program's memory, for the system to read or to write.
    pub fn open(self, at: u64, len: u64, writes: bool) {
        fault::open(at, len, writes);
    }
}

/// Unmaps memory of the program's that was ours to map.
pub fn unmap_host(at: u64, len: u64) {
    // SAFETY: a mapping of ours that nobody uses any more.
    unsafe { libc::munmap(at as *mut c_void, len as usize) };
}

impl Far for Cx {
    fn push(&self, context: u32, dst: u64, bytes: &[u8]) -> Result<()> {
        let sent = self.client.session.memory_in(context, dst, bytes);
        let sent = sent.and_then(|()| self.queued_one());
        sent.map_err(|_| CUDA_ERROR_DEVICE_UNAVAILABLE)
    }

    fn push_parts(&self, context: u32, changed: &Beside) -> Result<u64> {
        let Beside { dst, bytes, runs } = changed;
        let session = &self.client.session;
        let sent = session.memory_parts(context, *dst, bytes, runs);
        let sent = sent.and_then(|n| self.queued_one().map(|()| n));
        sent.map_err(|_| CUDA_ERROR_DEVICE_UNAVAILABLE)
    }

    fn atomic(&self, context: u32, atomic: &Atomic) -> Result<u64> {
        let answer = self.client.session.memory_atomic(context, atomic);
        match answer.ok_or(CUDA_ERROR_NOT_SUPPORTED)? {
            Ok(a) if a.status == CUDA_SUCCESS => {
                let had = a.body.first_chunk().ok_or(CUDA_ERROR_UNKNOWN)?;
                Ok(u64::from_le_bytes(*had))
            }
            Ok(a) => Err(a.status),
            Err(_) => Err(CUDA_ERROR_DEVICE_UNAVAILABLE),
        }
    }

    fn apart(&self) -> Result<()> {
        let sent = self.client.session.memory_apart();
        sent.map_err(|_| CUDA_ERROR_DEVICE_UNAVAILABLE)
    }

    fn fence(&self) -> Result<()> {
        let m = msg::MemoryFence {};
        debug_assert!(m.queued());
        let sent = self.client.session.queue(self.scope, &m);
        sent.and_then(|()| self.queued_one())
            .or_else(|_| self.lost())
    }

    fn read(&self, context: u32, src: u64, to: &mut [u8], older: bool) -> Result<u64> {
        // Not `Cx::call`: an error that the program has not heard of yet stays its own to hear.
        match self.client.session.memory_out(context, src, to, older) {
            Ok(a) if a.status == CUDA_SUCCESS => {
                let came = a.body.first_chunk().map(|n| u64::from_le_bytes(*n));
                Ok(came.unwrap_or(to.len() as u64))
            }
            Ok(a) => Err(a.status),
            Err(_) => Err(CUDA_ERROR_DEVICE_UNAVAILABLE),
        }
    }

    fn suspects(&self) -> Suspects {
        let shadows = &self.state().shadows;
        match shadows.is_host_memory_known() {
            true => shadows.suspects(),
            false => Suspects::default(),
        }
    }

    fn open(&self, src: u64, len: usize, host: (u64, Heard), to: Option<&mut [u8]>) -> Result<()> {
        match self.client.session.memory_open((src, len), host, to) {
            Ok(a) if a.status == CUDA_SUCCESS => Ok(()),
            Ok(a) => Err(a.status),
            Err(_) => Err(CUDA_ERROR_DEVICE_UNAVAILABLE),
        }
    }

    fn look(&self, all: bool) -> Result<bool> {
        match self.client.session.memory_look(all) {
            Ok(a) => Ok(a.status == CUDA_ERROR_NOT_READY),
            Err(_) => Err(CUDA_ERROR_DEVICE_UNAVAILABLE),
        }
    }
}

fn me() -> ThreadId {
    std::thread::current().id()
}

/// Work that is noted and being sent.
#[must_use = "the work is sent while this lives"]
#[derive(Default)]
pub struct Sending(Option<(Cx, (u32, u32))>);

impl Drop for Sending {
    #[inline]
    fn drop(&mut self) {
        // Of most work nothing is noted.
        if let Some((cx, work)) = self.0 {
            sent(cx, work);
        }
    }
}

#[cold]
fn sent(cx: Cx, work: (u32, u32)) {
    cx.state().shadows.areas().sent(me(), work);
}

impl Cx {
    /// A call was queued. With queueing switched off it waits here until the worker has it.
    #[inline]
    pub fn queued_one(self) -> Result<(), busbar_channel::Closed> {
        if busbar_channel::switches::Switch::Queue.on() {
            return Ok(());
        }
        self.client.session.drain()
    }

    /// Device work is about to be queued on `stream`: what the program has written goes ahead of
    /// it. The work is sent while what this gives lives.
    #[cold]
    pub fn work(self, stream: u32, touch: Touch<'_>) -> Result<Sending> {
        accesses::unblock();
        self.behind_arrivals(stream)?;
        let mut areas = self.state().shadows.areas();
        let work = (self.scope, stream);
        areas.work(&Host, &self, work, touch)?;
        if matches!(touch, Touch::Nothing) {
            return Ok(Sending::default());
        }
        areas.sends(me(), work);
        Ok(Sending(Some((self, work))))
    }

    /// The same, if any memory is shadowed.
    #[inline]
    pub fn work_if_shadowed(self, stream: u32, touch: Touch<'_>) -> Result<Sending> {
        match self.state().shadows.active() {
            true => self.work(stream, touch),
            false => Ok(Sending::default()),
        }
    }

    /// Sends what the program has written, before any work asks for it.
    pub fn push_written(self, writes: bool) -> Result<()> {
        let mut areas = self.state().shadows.areas();
        areas.push(&Host, &self, writes)
    }

    /// A function of the program's that ran in stream order has returned, or something else has
    /// written in its memory in stream order: that goes to the device before the work behind it,
    /// which was queued long ago and is the next to write. The worker does that before it heeds the
    /// word that the function has returned, so nobody waits here.
    pub fn function_ran(self) {
        if self.state().shadows.active()
            && let Err(e) = self.push_written(true)
        {
            crate::log!(
                Warn,
                "cannot send what was written in stream order: error {e}"
            );
        }
    }

    /// The program is about to wait for streams, which may wait for what it has written.
    #[inline]
    pub fn about_to_wait(self) -> Result<()> {
        let shadows = &self.state().shadows;
        if shadows.streams_wait() && shadows.active() {
            return self.push_written(false);
        }
        Ok(())
    }

    /// A call has waited for a context (`stream` is `None`) or a stream, for all up to the mark.
    #[inline]
    pub fn waited(self, scope: u32, stream: Option<u32>, mark: u64) {
        if self.state().shadows.active() {
            self.has_waited(scope, stream, mark);
        }
    }

    #[cold]
    fn has_waited(self, scope: u32, stream: Option<u32>, mark: u64) {
        accesses::unblock();
        self.state().order.wait_until_brought();
        let shadows = &self.state().shadows;
        let mut areas = shadows.areas();
        areas.over(me(), scope, stream, mark);
        areas.hear(&Host, &self);
        // What the program has looked at meanwhile, it must look at again.
        if shadows.streams_wait()
            && let Err(e) = areas.push(&Host, &self, true)
        {
            crate::log!(Warn, "cannot send what the program has written: error {e}");
        }
    }

    /// The program hears that work is over, or a function of its own is about to run in stream
    /// order: it sees what that work has written.
    #[inline]
    pub fn hears(self) {
        let (shadows, order) = (&self.state().shadows, &self.state().order);
        if order.has_aside() {
            order.wait_until_brought();
        }
        if shadows.needs_to_hear() {
            shadows.areas().hear(&Host, &self);
        }
    }

    /// Waits for work that the program's memory owes.
    pub fn wait_for(self, owed: &[(u32, u32)], mark: u64) -> Result<()> {
        let one = owed.len() == 1;
        let mut scopes: Vec<_> = owed
            .iter()
            .map(|(scope, stream)| (*scope, if one { *stream } else { ANY }))
            .collect();
        scopes.sort_unstable();
        scopes.dedup();
        let session = &self.client.session;
        for (scope, stream) in scopes {
            let stream = Some(stream).filter(|s| *s != ANY && *s != 0);
            let all = || session.call(scope, &msg::ContextSynchronize { context: scope }, None);
            let answer = match stream {
                None => all(),
                Some(h_stream) => {
                    match session.call(scope, &msg::CuStreamSynchronize { h_stream }, None) {
                        // Another thread has destroyed the stream, whose work goes on.
                        Ok(a) if a.status == CUDA_ERROR_INVALID_HANDLE => all(),
                        answer => answer,
                    }
                }
            };
            match answer {
                Ok(a) if a.status == CUDA_SUCCESS => {}
                Ok(a) => return Err(a.status),
                Err(_) => return Err(CUDA_ERROR_DEVICE_UNAVAILABLE),
            }
            self.state().shadows.areas().over(me(), scope, stream, mark);
        }
        Ok(())
    }
}
