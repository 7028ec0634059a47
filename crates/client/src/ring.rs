//! Copies between the program's own memory and a worker on this host: piece by piece through
//! memory that both have mapped.
//!
//! Long copies are spread over a few threads, since one core copies more slowly than a device
//! does. When no piece comes free in time (the device waits for something that may be this very
//! thread), the bytes take the connection.

use crate::calls::Answer;
use crate::prelude::*;
use crate::session::Session;
use crate::threads::quietly;
use busbar_wire::codec::Request;

/// The most bytes of a piece.
const PIECE: usize = 2 << 20;
/// How many pieces there are.
const PIECES: usize = 12;
/// Bytes of shared memory that a ring takes.
pub const SIZE: usize = PIECE * PIECES;
/// The fewest bytes of a copy that are worth a piece.
pub const LEAST: usize = 256 << 10;
/// How long to wait for a piece to come free.
const PATIENCE: Duration = Duration::from_millis(20);
/// From this length on a copy gets more threads.
const SPREAD_FROM: usize = 8 << 20;

/// What an API does with the pieces of a copy. Offsets count from the copy's first byte.
pub trait Way: Sync {
    /// What goes wrong.
    type Error: Send + 'static;

    /// Has the worker copy `len` bytes between the piece at `piece` and the place at `offset` of
    /// the other side. `then` hears how that went, on the receiving thread, and frees the piece.
    fn send(
        &self,
        piece: *mut u8,
        offset: usize,
        len: usize,
        then: impl FnOnce(Result<(), Self::Error>) + Send + 'static,
    ) -> Result<(), Self::Error>;

    /// Copies `len` bytes at `offset` over the connection; bytes that come are there on return.
    fn detour(&self, offset: usize, len: usize) -> Result<(), Self::Error>;

    /// What is held while a thread waits for an answer.
    fn expect(&self) -> impl Sized;
}

/// Has the worker copy `len` bytes between a piece and its device, as `m` says. `then` hears how
/// that went; `lost` is the error of a session that is over.
pub fn queue<'a, R: Request<'a>>(
    session: &Session,
    scope: u32,
    m: &R,
    len: usize,
    lost: i32,
    then: impl FnOnce(Result<(), i32>) + Send + 'static,
) -> Result<(), i32> {
    session.note_shared(len);
    let answered = move |a: Option<Answer>| match a.map_or(lost, |a| a.status) {
        0 => then(Ok(())),
        e => then(Err(e)),
    };
    // SAFETY: the answer has no bulk bytes.
    let sent = unsafe { session.call_async(scope, m, None, answered) };
    session.flush();
    sent.map_err(|_| lost)
}

/// The pieces of one shared memory.
pub struct Ring {
    base: usize,
    free: Mutex<Vec<usize>>,
    freed: Condvar,
}

/// A piece in use; it is free again when dropped.
struct Piece {
    home: &'static Ring,
    number: usize,
}

impl Drop for Piece {
    fn drop(&mut self) {
        lock(&self.home.free).push(self.number);
        self.home.freed.notify_one();
    }
}

impl Piece {
    fn at(&self) -> *mut u8 {
        (self.home.base + self.number * PIECE) as *mut u8
    }
}

impl Ring {
    /// A ring over memory that is shared with a worker.
    ///
    /// # Safety
    /// [`SIZE`] bytes at `base` are the ring's own, for ever.
    pub unsafe fn new(base: *mut u8) -> Self {
        // The lowest number is handed out first, so that little memory is touched.
        Self {
            base: base as usize,
            free: Mutex::new((0..PIECES).rev().collect()),
            freed: Condvar::new(),
        }
    }

    fn take(&'static self, patience: Duration) -> Option<Piece> {
        let (mut free, _) = self
            .freed
            .wait_timeout_while(lock(&self.free), patience, |f| f.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        let number = free.pop()?;
        Some(Piece { home: self, number })
    }

    /// Copies memory of the program's to the device, and is done reading it on return. A failure
    /// that is told later goes to `failed`.
    ///
    /// # Safety
    /// `len` bytes at `src` are readable.
    pub unsafe fn send<W: Way>(
        &'static self,
        src: *const u8,
        len: usize,
        way: &W,
        failed: impl Fn(W::Error) + Clone + Send + Sync + 'static,
    ) -> Result<(), W::Error> {
        let (parts, src) = (Parts::new(len), src as usize);
        spread(helpers(len), || {
            while let Some((at, n)) = parts.take() {
                let Some(piece) = self.take(parts.patience()) else {
                    parts.give_up();
                    way.detour(at, n)?;
                    continue;
                };
                // SAFETY: within the caller's bytes; a piece has room for a part, and is ours.
                unsafe { std::ptr::copy_nonoverlapping((src + at) as *const u8, piece.at(), n) };
                let failed = failed.clone();
                way.send(piece.at(), at, n, move |done| {
                    drop(piece);
                    if let Err(e) = done {
                        failed(e);
                    }
                })?;
            }
            Ok(())
        })
    }

    /// Copies from the device to memory of the program's, and is done on return.
    ///
    /// # Safety
    /// `len` bytes at `dst` are writable.
    pub unsafe fn fetch<W: Way>(
        &'static self,
        dst: *mut u8,
        len: usize,
        way: &W,
    ) -> Result<(), W::Error> {
        let (parts, dst) = (Parts::new(len), dst as usize);
        // SAFETY: passed on to the caller.
        spread(helpers(len), || unsafe { self.arrive(&parts, dst, way) })
    }

    /// One thread's part of that. The next piece is on its way while this one is copied.
    unsafe fn arrive<W: Way>(
        &'static self,
        parts: &Parts,
        dst: usize,
        way: &W,
    ) -> Result<(), W::Error> {
        let mut coming = VecDeque::new();
        let mut part = parts.take();
        let mut done = Ok(());
        while part.is_some() || !coming.is_empty() {
            while let Some((at, n)) = part
                && coming.len() < 2
            {
                let patience = match coming.is_empty() {
                    true => parts.patience(),
                    false => Duration::ZERO,
                };
                let Some(piece) = self.take(patience) else {
                    if !coming.is_empty() {
                        break;
                    }
                    parts.give_up();
                    done = done.and(way.detour(at, n));
                    part = parts.take();
                    continue;
                };
                let ended = Arc::new(Ended::default());
                let to = ended.clone();
                let sent = way.send(piece.at(), at, n, move |done| to.set((piece, done)));
                part = match sent {
                    Ok(()) => {
                        coming.push_back((at, n, ended));
                        parts.take()
                    }
                    Err(e) => {
                        done = done.and(Err(e));
                        None
                    }
                };
            }
            let Some((at, n, ended)) = coming.pop_front() else {
                continue;
            };
            let (piece, how) = ended.wait(way);
            done = done.and(how);
            if done.is_ok() {
                let to = (dst + at) as *mut u8;
                // SAFETY: within the caller's bytes; the piece holds as many, and is ours.
                unsafe { std::ptr::copy_nonoverlapping(piece.at(), to, n) };
            } else {
                part = None;
            }
        }
        done
    }

    /// Copies from the device to memory of the program's; the bytes arrive by themselves. Says how
    /// many of the first bytes that goes for. `arrived` hears of each part, on the receiving
    /// thread, and puts it in its place.
    ///
    /// # Safety
    /// `len` bytes at `dst` stay writable until each part is in its place.
    pub unsafe fn fetch_later<W: Way>(
        &'static self,
        dst: *mut u8,
        len: usize,
        way: &W,
        arrived: impl Fn(Result<Part, W::Error>) + Clone + Send + 'static,
    ) -> Result<usize, W::Error> {
        let (parts, dst) = (Parts::new(len), dst as usize);
        while let Some((at, n)) = parts.take() {
            let Some(piece) = self.take(PATIENCE) else {
                return Ok(at);
            };
            let arrived = arrived.clone();
            way.send(piece.at(), at, n, move |done| {
                let (to, len) = (dst + at, n);
                arrived(done.map(|()| Part { piece, to, len }));
            })?;
        }
        Ok(len)
    }
}

/// A part of a copy that has come as far as shared memory.
pub struct Part {
    piece: Piece,
    to: usize,
    len: usize,
}

impl Part {
    /// Puts it in its place.
    pub fn put(self) {
        // SAFETY: the memory of who asked for the copy; the piece holds as many bytes.
        unsafe { std::ptr::copy_nonoverlapping(self.piece.at(), self.to as *mut u8, self.len) };
    }
}

/// How the copy of a piece ended, once it has.
struct Ended<E> {
    how: Mutex<Option<(Piece, Result<(), E>)>>,
    came: Condvar,
}

impl<E> Default for Ended<E> {
    fn default() -> Self {
        Self {
            how: Mutex::new(None),
            came: Condvar::new(),
        }
    }
}

impl<E> Ended<E> {
    fn set(&self, how: (Piece, Result<(), E>)) {
        *lock(&self.how) = Some(how);
        self.came.notify_one();
    }

    fn wait<W: Way<Error = E>>(&self, way: &W) -> (Piece, Result<(), E>) {
        // Else nobody looks for the answer, or notices that it does not come.
        let _expecting = way.expect();
        let mut how = lock(&self.how);
        loop {
            if let Some(x) = how.take() {
                return x;
            }
            how = self.came.wait(how).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The parts of a copy, which threads take one after another.
struct Parts {
    len: usize,
    part: usize,
    next: AtomicUsize,
    /// No piece came free in time: the rest of the copy does not wait for one again.
    slow: AtomicBool,
}

impl Parts {
    fn new(len: usize) -> Self {
        Self {
            len,
            part: (len / 4).next_multiple_of(4096).clamp(LEAST, PIECE),
            next: AtomicUsize::new(0),
            slow: AtomicBool::new(false),
        }
    }

    /// The next part's offset and length.
    fn take(&self) -> Option<(usize, usize)> {
        let at = self.next.fetch_add(1, Ordering::Relaxed) * self.part;
        (at < self.len).then(|| (at, self.part.min(self.len - at)))
    }

    fn give_up(&self) {
        self.slow.store(true, Ordering::Relaxed);
    }

    fn patience(&self) -> Duration {
        match self.slow.load(Ordering::Relaxed) {
            true => Duration::ZERO,
            false => PATIENCE,
        }
    }
}

/// How many threads a copy of `len` bytes is worth beside the one that asks for it.
fn helpers(len: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    match len < SPREAD_FROM {
        true => 0,
        false => (cores / 4).min(3),
    }
}

/// Runs `work` on this thread and on `helpers` others.
fn spread<E: Send>(helpers: usize, work: impl Fn() -> Result<(), E> + Sync) -> Result<(), E> {
    if helpers == 0 {
        return work();
    }
    std::thread::scope(|s| {
        // One that cannot be started leaves its part to the others.
        let start = |_| std::thread::Builder::new().spawn_scoped(s, &work);
        let threads: Vec<_> = quietly(|| (0..helpers).flat_map(start).collect());
        let mut done = work();
        for t in threads {
            match t.join() {
                Ok(theirs) => done = done.and(theirs),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    })
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
                Ok::<_, i32>(())
            });
            assert_eq!((done, sum.into_inner()), (Ok(()), PIECE * 100));
            let failing = AtomicUsize::new(0);
            let one_fails = || match failing.fetch_add(1, Ordering::Relaxed) {
                n if n == helpers => Err(7),
                _ => Ok(()),
            };
            assert_eq!(spread(helpers, one_fails), Err(7));
        }
    }

    type Then = Box<dyn FnOnce(Result<(), i32>) + Send>;

    /// A worker that answers after the fact, and a device's memory.
    struct Fake {
        device: Arc<Mutex<Vec<u8>>>,
        to_device: bool,
        orders: std::sync::mpsc::Sender<(usize, usize, usize, bool, Then)>,
        detours: AtomicUsize,
        ring: &'static Ring,
        host: usize,
    }

    impl Fake {
        fn new(len: usize, to_device: bool, host: usize) -> Self {
            let memory = Box::leak(vec![0u8; SIZE].into_boxed_slice());
            // SAFETY: leaked, and of that size.
            let ring = Box::leak(Box::new(unsafe { Ring::new(memory.as_mut_ptr()) }));
            let device = Arc::new(Mutex::new(vec![0u8; len]));
            let (orders, taken) = std::sync::mpsc::channel::<(usize, usize, usize, bool, Then)>();
            let theirs = device.clone();
            std::thread::spawn(move || {
                for (piece, offset, len, to_device, then) in taken {
                    let mut d = lock(&theirs);
                    let d = &mut d[offset..offset + len];
                    // SAFETY: the piece is lent until `then` has run.
                    unsafe {
                        match to_device {
                            true => d.copy_from_slice(std::slice::from_raw_parts(
                                piece as *const u8,
                                len,
                            )),
                            false => {
                                std::ptr::copy_nonoverlapping(d.as_ptr(), piece as *mut u8, len)
                            }
                        }
                    }
                    then(Ok(()));
                }
            });
            Self {
                device,
                to_device,
                orders,
                detours: AtomicUsize::new(0),
                ring,
                host,
            }
        }
    }

    impl Way for Fake {
        type Error = i32;

        fn send(
            &self,
            piece: *mut u8,
            offset: usize,
            len: usize,
            then: impl FnOnce(Result<(), i32>) + Send + 'static,
        ) -> Result<(), i32> {
            let order = (
                piece as usize,
                offset,
                len,
                self.to_device,
                Box::new(then) as Then,
            );
            self.orders.send(order).map_err(|_| 8)
        }

        fn detour(&self, offset: usize, len: usize) -> Result<(), i32> {
            self.detours.fetch_add(1, Ordering::Relaxed);
            let mut d = lock(&self.device);
            let d = &mut d[offset..offset + len];
            let host = (self.host + offset) as *mut u8;
            // SAFETY: the test's own memory, of the same length.
            unsafe {
                match self.to_device {
                    true => std::ptr::copy_nonoverlapping(host, d.as_mut_ptr(), len),
                    false => std::ptr::copy_nonoverlapping(d.as_ptr(), host, len),
                }
            }
            Ok(())
        }

        fn expect(&self) -> impl Sized {}
    }

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 7 + i / 253) as u8).collect()
    }

    #[test]
    fn every_byte_arrives_in_either_direction() {
        for len in [LEAST, 3 << 20, (40 << 20) + 3] {
            let sent = bytes(len);
            let way = Fake::new(len, true, sent.as_ptr() as usize);
            // SAFETY: readable bytes.
            let done = unsafe { way.ring.send(sent.as_ptr(), len, &way, |_| unreachable!()) };
            assert_eq!(done, Ok(()));
            // A piece is free once its copy was answered.
            while lock(&way.ring.free).len() < PIECES {
                std::thread::yield_now();
            }
            assert!(*lock(&way.device) == sent);
            let mut got = vec![0; len];
            let way = Fake::new(len, false, got.as_mut_ptr() as usize);
            lock(&way.device).copy_from_slice(&sent);
            // SAFETY: writable bytes.
            let done = unsafe { way.ring.fetch(got.as_mut_ptr(), len, &way) };
            assert_eq!(done, Ok(()));
            assert!(got == sent);
        }
    }

    #[test]
    fn bytes_come_by_themselves_as_far_as_pieces_are_free() {
        let len = SIZE + PIECE;
        let mut got = vec![0; len];
        let way = Fake::new(len, false, got.as_mut_ptr() as usize);
        lock(&way.device).copy_from_slice(&bytes(len));
        let (say, hear) = std::sync::mpsc::channel();
        let say = move |done: Result<Part, i32>| {
            let part = done.unwrap();
            let n = part.len;
            part.put();
            say.send(n).unwrap();
        };
        // SAFETY: writable until all of it has arrived.
        let by_ring = unsafe { way.ring.fetch_later(got.as_mut_ptr(), len, &way, say) };
        let by_ring = by_ring.unwrap();
        assert_eq!(hear.iter().sum::<usize>(), by_ring);
        assert!(got[..by_ring] == bytes(len)[..by_ring]);
    }

    #[test]
    fn a_copy_for_which_no_piece_comes_free_takes_the_connection() {
        let len = 8 << 20;
        let sent = bytes(len);
        let way = Fake::new(len, true, sent.as_ptr() as usize);
        let held: Vec<_> = (0..PIECES)
            .flat_map(|_| way.ring.take(Duration::ZERO))
            .collect();
        assert_eq!(held.len(), PIECES);
        // SAFETY: readable bytes.
        let done = unsafe { way.ring.send(sent.as_ptr(), len, &way, |_| unreachable!()) };
        assert_eq!((done, way.detours.load(Ordering::Relaxed)), (Ok(()), 4));
        assert!(*lock(&way.device) == sent);
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
