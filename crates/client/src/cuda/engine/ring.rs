//! Copies of memory that is not shared with a worker on this host: piece by piece through memory
//! that is.
//!
//! Long copies are spread over a few threads, since one core copies more slowly than the device
//! does. When no piece comes free in time (the device waits for something that may be this very
//! thread), the bytes take the connection.

use crate::cuda::call::{Cx, fault};
use crate::cuda::engine::transfer::Arriving;
use crate::cuda::engine::{shared, transfer};
use crate::cuda::state::pieces::Pieces;
use crate::lock::lock;
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda as msg;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The most bytes of a piece.
const PIECE: usize = 2 << 20;
/// The fewest that are worth one; also the shortest copy that goes this way.
const LEAST: usize = 256 << 10;
/// How many pieces there are.
const PIECES: usize = 12;
/// How long to wait for one to come free.
const PATIENCE: Duration = Duration::from_millis(20);
/// From this length on a copy gets more threads.
const SPREAD_FROM: usize = 8 << 20;

/// A piece in use; it is free again when dropped.
struct Piece {
    home: &'static Pieces,
    at: u64,
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.home.give(self.at);
    }
}

impl Piece {
    /// Queues the copy of `len` bytes between this piece and the device; `then` hears how it went,
    /// on the receiving thread.
    fn send(
        self,
        cx: Cx,
        (device, to_device): (u64, bool),
        len: usize,
        stream: u32,
        then: impl FnOnce(Self, CUresult) + Send + 'static,
    ) -> Result<(), CUresult> {
        let here = self.at;
        let (dst, src) = if to_device {
            (device, here)
        } else {
            (here, device)
        };
        let m = msg::CopyShared {
            dst,
            src,
            len: len as u64,
            stream,
        };
        cx.client.session.note_shared(len);
        let answered = move |a: Option<crate::calls::Answer>| {
            then(self, a.map_or(CUDA_ERROR_DEVICE_UNAVAILABLE, |a| a.status));
        };
        // SAFETY: the answer has no bulk bytes.
        let sent = unsafe { cx.client.session.call_async(cx.scope, &m, None, answered) };
        sent.map_err(|_| CUDA_ERROR_DEVICE_UNAVAILABLE)?;
        cx.client.session.flush();
        Ok(())
    }
}

/// The ring for a copy of `len` bytes, made for the first that is long enough; `None` for a shorter
/// one, and when nothing can be shared.
fn ring_for(cx: Cx, len: usize) -> Option<&'static Pieces> {
    if len < LEAST {
        return None;
    }
    cx.client.session.neighbour.as_ref()?;
    let make = || {
        let base = shared::alloc(cx, (PIECE * PIECES) as u64)?;
        Some(Pieces::new(base, PIECE, PIECES))
    };
    cx.client.ring.get_or_init(make).as_ref()
}

fn take(home: &'static Pieces, patience: Duration) -> Option<Piece> {
    home.take(patience).map(|at| Piece { home, at })
}

/// The parts of a copy, which threads take one after another.
struct Parts {
    len: usize,
    part: usize,
    next: AtomicUsize,
    /// Records that were queued for them.
    queued: AtomicU64,
}

impl Parts {
    fn new(len: usize) -> Self {
        Self {
            len,
            part: (len / 4).next_multiple_of(4096).clamp(LEAST, PIECE),
            next: AtomicUsize::new(0),
            queued: AtomicU64::new(0),
        }
    }

    /// The next part's offset and length.
    fn take(&self) -> Option<(usize, usize)> {
        let at = self.next.fetch_add(1, Ordering::Relaxed) * self.part;
        (at < self.len).then(|| (at, self.part.min(self.len - at)))
    }
}

/// How many threads a copy of `len` bytes is worth beside the one that asks for it.
fn helpers(len: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if len < SPREAD_FROM {
        0
    } else {
        (cores / 4).min(3)
    }
}

/// Runs `work` on this thread and on `helpers` others.
fn spread(helpers: usize, work: impl Fn() -> Result<(), CUresult> + Sync) -> Result<(), CUresult> {
    if helpers == 0 {
        return work();
    }
    std::thread::scope(|s| {
        let start = |_| std::thread::Builder::new().spawn_scoped(s, &work);
        // One that cannot be started leaves its part to the others.
        let threads: Vec<_> = fault::quietly(|| (0..helpers).flat_map(start).collect());
        let mut done = work();
        for t in threads {
            done = done.and(t.join().unwrap_or(Err(CUDA_ERROR_UNKNOWN)));
        }
        done
    })
}

/// A pointer that several threads use, each at places of its own.
#[derive(Clone, Copy)]
struct Shared(u64);

/// Copies memory of the program's to the device, and is done reading it on return. Says whether it
/// did.
///
/// # Safety
/// `len` bytes at `src` are readable.
pub unsafe fn to_device(
    cx: Cx,
    dst: u64,
    src: *const u8,
    len: usize,
    stream: u32,
) -> Result<bool, CUresult> {
    let Some(ring) = ring_for(cx, len) else {
        return Ok(false);
    };
    let parts = Parts::new(len);
    let src = Shared(src as u64);
    spread(helpers(len), || {
        while let Some((at, n)) = parts.take() {
            let (from, to) = ((src.0 + at as u64) as *const u8, dst + at as u64);
            let Some(piece) = take(ring, PATIENCE) else {
                // SAFETY: within the caller's bytes.
                let bytes = unsafe { std::slice::from_raw_parts(from, n) };
                transfer::queue(cx, to, bytes, stream)?;
                continue;
            };
            // SAFETY: within the caller's bytes; a piece has room for a part, and is ours.
            unsafe { std::ptr::copy_nonoverlapping(from, piece.at as *mut u8, n) };
            piece.send(cx, (to, true), n, stream, move |piece, rc| {
                drop(piece);
                if rc != CUDA_SUCCESS {
                    cx.state().contexts.defer(cx.scope, rc);
                }
            })?;
        }
        Ok(())
    })?;
    Ok(true)
}

/// How a copy ended, once it has.
#[derive(Default)]
struct Ended {
    how: Mutex<Option<(Piece, CUresult)>>,
    came: Condvar,
}

impl Ended {
    fn wait(&self, cx: Cx) -> (Piece, CUresult) {
        // Else nobody looks for the answer, or notices that it does not come.
        let _expecting = cx.client.session.expect();
        let mut how = lock(&self.how);
        loop {
            if let Some(x) = how.take() {
                return x;
            }
            how = self.came.wait(how).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Copies from the device to memory of the program's, and is done on return. Says whether it did.
///
/// # Safety
/// `len` bytes at `dst` are writable.
pub unsafe fn to_host(
    cx: Cx,
    dst: *mut u8,
    src: u64,
    len: usize,
    stream: u32,
) -> Result<bool, CUresult> {
    let Some(ring) = ring_for(cx, len) else {
        return Ok(false);
    };
    let since = cx.queued();
    let parts = Parts::new(len);
    let dst = Shared(dst as u64);
    // SAFETY: passed on to the caller.
    spread(helpers(len), || unsafe {
        arrive(cx, ring, &parts, dst, src, stream)
    })?;
    cx.state().contexts.deferred(cx.scope)?;
    let queued = parts.queued.load(Ordering::Relaxed);
    if queued > 0 {
        cx.now_idle(stream, since + queued - 1);
    }
    Ok(true)
}

/// Queues copies from the device to page-locked memory of the program's that is not shared; the
/// bytes arrive by themselves. Says how many of the first bytes it did so with.
///
/// # Safety
/// `len` bytes at `dst` stay writable until the copies have arrived.
pub unsafe fn to_host_later(
    cx: Cx,
    dst: *mut u8,
    src: u64,
    len: usize,
    stream: u32,
) -> Result<usize, CUresult> {
    let Some(ring) = ring_for(cx, len) else {
        return Ok(0);
    };
    let parts = Parts::new(len);
    while let Some((at, n)) = parts.take() {
        let Some(piece) = take(ring, PATIENCE) else {
            return Ok(at);
        };
        let to = Shared(dst as u64 + at as u64);
        let arriving = Arriving::new(cx, to.0, n);
        piece.send(cx, (src + at as u64, false), n, stream, move |piece, rc| {
            match rc {
                // SAFETY: the caller's memory; the piece holds as many bytes.
                CUDA_SUCCESS => unsafe {
                    std::ptr::copy_nonoverlapping(piece.at as *const u8, to.0 as *mut u8, n);
                },
                e => cx.state().contexts.defer(cx.scope, e),
            }
            drop((piece, arriving));
        })?;
    }
    Ok(len)
}

/// One thread's part of that. The next piece is on its way while this one is copied.
unsafe fn arrive(
    cx: Cx,
    ring: &'static Pieces,
    parts: &Parts,
    dst: Shared,
    src: u64,
    stream: u32,
) -> Result<(), CUresult> {
    let mut coming: VecDeque<(usize, usize, Arc<Ended>)> = VecDeque::new();
    let mut part = parts.take();
    let mut done = Ok(());
    while part.is_some() || !coming.is_empty() {
        while let Some((at, n)) = part
            && coming.len() < 2
        {
            let patience = if coming.is_empty() {
                PATIENCE
            } else {
                Duration::ZERO
            };
            let Some(piece) = take(ring, patience) else {
                if !coming.is_empty() {
                    break;
                }
                parts.queued.fetch_add(1, Ordering::Relaxed);
                // SAFETY: within the caller's bytes.
                let got = unsafe {
                    let to = (dst.0 + at as u64) as *mut u8;
                    transfer::fetch(cx, to, src + at as u64, n, stream)
                };
                done = done.and(got);
                part = parts.take();
                continue;
            };
            let ended = Arc::new(Ended::default());
            let to = ended.clone();
            parts.queued.fetch_add(1, Ordering::Relaxed);
            let sent = piece.send(cx, (src + at as u64, false), n, stream, move |piece, rc| {
                *lock(&to.how) = Some((piece, rc));
                to.came.notify_one();
            });
            match sent {
                Ok(()) => {
                    coming.push_back((at, n, ended));
                    part = parts.take();
                }
                Err(e) => {
                    done = done.and(Err(e));
                    part = None;
                }
            }
        }
        let Some((at, n, ended)) = coming.pop_front() else {
            continue;
        };
        let (piece, rc) = ended.wait(cx);
        done = done.and(match rc {
            CUDA_SUCCESS => Ok(()),
            e => Err(e),
        });
        if done.is_ok() {
            // SAFETY: within the caller's bytes; the piece holds as many, and is ours.
            unsafe {
                let to = (dst.0 + at as u64) as *mut u8;
                std::ptr::copy_nonoverlapping(piece.at as *const u8, to, n);
            }
        } else {
            part = None;
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_spread_over_threads_and_any_of_them_may_fail() {
        for helpers in [0, 1, 3] {
            let parts = Parts::new(PIECE * 100);
            let sum = AtomicUsize::new(0);
            let done = spread(helpers, || {
                while let Some((_, n)) = parts.take() {
                    sum.fetch_add(n, Ordering::Relaxed);
                }
                Ok(())
            });
            assert_eq!((done, sum.into_inner()), (Ok(()), PIECE * 100));
            let failing = AtomicUsize::new(0);
            let one_fails = || match failing.fetch_add(1, Ordering::Relaxed) {
                n if n == helpers => Err(CUDA_ERROR_INVALID_VALUE),
                _ => Ok(()),
            };
            assert_eq!(spread(helpers, one_fails), Err(CUDA_ERROR_INVALID_VALUE));
        }
    }

    #[test]
    fn parts_cover_a_copy_once() {
        for len in [LEAST, LEAST + 1, 3 << 20, (9 << 20) + 5, PIECE * 7 - 1] {
            let parts = Parts::new(len);
            let mut end = 0;
            while let Some((at, n)) = parts.take() {
                assert!(at == end && n > 0 && n <= PIECE);
                end = at + n;
            }
            assert_eq!(end, len);
            assert!(parts.take().is_none());
        }
    }
}
