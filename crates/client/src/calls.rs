//! Calls that were made and not yet answered.

use crate::lock::lock;
use busbar_channel::{look, patience};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// An answer: the API's result code and the reply message's bytes.
#[derive(Debug, Default)]
pub struct Answer {
    /// The API's own result code.
    pub status: i32,
    /// The reply message.
    pub body: Vec<u8>,
}

const IDLE: u32 = 0;
const PARKED: u32 = 1;
const DONE: u32 = 2;

/// Where one thread waits for one answer.
#[derive(Default)]
pub struct Waiter {
    state: AtomicU32,
    answer: Mutex<Option<Answer>>,
}

impl Waiter {
    fn finish(&self, answer: Option<Answer>) {
        *lock(&self.answer) = answer;
        if self.state.swap(DONE, Ordering::AcqRel) == PARKED {
            // SAFETY: a futex wake on a live, aligned u32.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.state.as_ptr(),
                    libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                    1,
                );
            }
        }
    }

    /// Waits for the answer; `None` when the session ended first.
    pub fn wait(&self) -> Option<Answer> {
        self.wait_long(None, |_| ())
    }

    /// As `wait`; `slow` hears of it when the wait has taken `first`, twice as long, and so on.
    pub fn wait_long(&self, first: Option<Duration>, slow: impl Fn(Duration)) -> Option<Answer> {
        let mut report = first.map(|first| (Instant::now(), first));
        let done = || self.state.load(Ordering::Acquire) == DONE;
        look(patience().waiting, done);
        while !done() {
            if self
                .state
                .compare_exchange(IDLE, PARKED, Ordering::AcqRel, Ordering::Acquire)
                .is_err_and(|s| s == DONE)
            {
                break;
            }
            let left = report.map(|(start, at)| {
                let left = at.saturating_sub(start.elapsed());
                libc::timespec {
                    tv_sec: left.as_secs() as libc::time_t,
                    tv_nsec: left.subsec_nanos().into(),
                }
            });
            let left = left.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            // SAFETY: a futex wait on a live, aligned u32; a live time, or none.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.state.as_ptr(),
                    libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                    PARKED,
                    left,
                );
            }
            if let Some((start, at)) = &mut report
                && start.elapsed() >= *at
                && !done()
            {
                slow(*at);
                *at *= 2;
            }
        }
        self.state.store(IDLE, Ordering::Release);
        lock(&self.answer).take()
    }
}

/// What happens when the answer comes.
enum Then {
    Wake(Arc<Waiter>),
    /// Nobody waits: bulk bytes arrive, and the function hears of the end.
    Run(Box<dyn FnOnce(Option<Answer>) + Send>),
}

struct Call {
    then: Then,
    /// Where bulk bytes of the answer go, and how many there are at most.
    place: Option<(usize, usize)>,
}

#[derive(Default)]
struct Slots {
    calls: Vec<(u32, Option<Call>)>,
    free: Vec<u32>,
    ended: bool,
    live: usize,
}

/// The table of open calls.
#[derive(Default)]
pub struct Calls {
    slots: Mutex<Slots>,
    freed: Condvar,
}

const INDEX_BITS: u32 = 18;
const INDEX: u32 = (1 << INDEX_BITS) - 1;

thread_local! {
    static WAITER: RefCell<Option<Arc<Waiter>>> = const { RefCell::new(None) };
}

impl Calls {
    fn insert(&self, call: Call) -> Option<u32> {
        let mut s = lock(&self.slots);
        // All numbers in use: copies that nobody waits for are many. Some will be answered.
        while !s.ended && s.free.is_empty() && s.calls.len() > INDEX as usize {
            s = self.freed.wait(s).unwrap_or_else(PoisonError::into_inner);
        }
        if s.ended {
            return None;
        }
        let i = match s.free.pop() {
            Some(i) => i,
            None => {
                s.calls.push((0, None));
                s.calls.len() as u32 - 1
            }
        };
        debug_assert!(i <= INDEX);
        s.live += 1;
        let slot = &mut s.calls[i as usize];
        // The generation keeps a stale or invented number from finding somebody else's call; it is
        // never zero, and so neither is the call's number.
        slot.0 = slot.0 % ((1 << (32 - INDEX_BITS)) - 1) + 1;
        slot.1 = Some(call);
        Some(slot.0 << INDEX_BITS | i)
    }

    /// Opens a call that the present thread waits for. `None` when the session is over.
    pub fn open(&self, place: Option<(*mut u8, usize)>) -> Option<(u32, Arc<Waiter>)> {
        let waiter = WAITER
            .try_with(|w| w.borrow_mut().take())
            .ok()
            .flatten()
            .unwrap_or_default();
        let place = place.map(|(p, n)| (p as usize, n));
        let id = self.insert(Call {
            then: Then::Wake(waiter.clone()),
            place,
        })?;
        Some((id, waiter))
    }

    /// Gives a waiter back for the thread's next call.
    pub fn recycle(waiter: Arc<Waiter>) {
        let _ = WAITER.try_with(|w| *w.borrow_mut() = Some(waiter));
    }

    /// Opens a call that nobody waits for: `then` runs on the receiving thread when it is answered,
    /// with `None` when the session ends first. It must not block.
    pub fn open_async(
        &self,
        place: Option<(*mut u8, usize)>,
        then: impl FnOnce(Option<Answer>) + Send + 'static,
    ) -> Option<u32> {
        let place = place.map(|(p, n)| (p as usize, n));
        self.insert(Call {
            then: Then::Run(Box::new(then)),
            place,
        })
    }

    /// Where bytes `offset..offset+len` of a call's bulk answer go.
    pub fn place(&self, call: u32, offset: u64, len: usize) -> Option<*mut u8> {
        let s = lock(&self.slots);
        let slot = s.calls.get((call & INDEX) as usize)?;
        if slot.0 != call >> INDEX_BITS {
            return None;
        }
        let (p, n) = slot.1.as_ref()?.place?;
        let offset = usize::try_from(offset).ok()?;
        (offset.checked_add(len)? <= n).then(|| (p + offset) as *mut u8)
    }

    /// The answer to `call` is here. False when no such call is open.
    pub fn answer(&self, call: u32, answer: Answer) -> bool {
        let taken = {
            let mut s = lock(&self.slots);
            let i = (call & INDEX) as usize;
            match s.calls.get_mut(i) {
                Some(slot) if slot.0 == call >> INDEX_BITS => {
                    let taken = slot.1.take();
                    if taken.is_some() {
                        if s.free.is_empty() && s.calls.len() > INDEX as usize {
                            self.freed.notify_all();
                        }
                        s.free.push(i as u32);
                        s.live -= 1;
                    }
                    taken
                }
                _ => None,
            }
        };
        match taken.map(|c| c.then) {
            Some(Then::Wake(w)) => w.finish(Some(answer)),
            Some(Then::Run(f)) => f(Some(answer)),
            None => return false,
        }
        true
    }

    /// How many calls are open.
    pub fn live(&self) -> usize {
        lock(&self.slots).live
    }

    /// The session is over: every open call ends, and no new one begins.
    pub fn end(&self) {
        let calls: Vec<_> = {
            let mut s = lock(&self.slots);
            s.ended = true;
            s.live = 0;
            self.freed.notify_all();
            s.calls
                .iter_mut()
                .filter_map(|slot| slot.1.take())
                .collect()
        };
        for c in calls {
            match c.then {
                Then::Wake(w) => w.finish(None),
                Then::Run(f) => f(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invented_or_stale_number_answers_nobody() {
        let calls = Calls::default();
        let (id, w) = calls.open(None).unwrap();
        assert!(!calls.answer(id ^ 1 << INDEX_BITS, Answer::default()));
        assert!(!calls.answer(id + 1, Answer::default()));
        assert!(calls.answer(
            id,
            Answer {
                status: 7,
                body: vec![]
            }
        ));
        assert!(!calls.answer(id, Answer::default()));
        assert_eq!(w.wait().unwrap().status, 7);
    }

    #[test]
    fn who_waits_long_hears_of_it_again_and_again() {
        let calls = Calls::default();
        let (id, w) = calls.open(None).unwrap();
        let heard = std::cell::RefCell::new(Vec::new());
        let first = Duration::from_millis(1);
        let answer = w.wait_long(Some(first), |t| {
            heard.borrow_mut().push(t);
            if heard.borrow().len() == 3 {
                calls.answer(id, Answer::default());
            }
        });
        assert!(answer.is_some());
        assert_eq!(heard.into_inner(), [first, 2 * first, 4 * first]);
    }

    #[test]
    fn bulk_bytes_stay_inside_their_place() {
        let calls = Calls::default();
        let mut buf = [0u8; 16];
        let (id, _w) = calls.open(Some((buf.as_mut_ptr(), 16))).unwrap();
        assert_eq!(
            calls.place(id, 8, 8),
            Some(buf.as_mut_ptr().wrapping_add(8))
        );
        assert_eq!(calls.place(id, 8, 9), None);
        assert_eq!(calls.place(id, u64::MAX, 2), None);
    }

    #[test]
    fn the_end_of_a_session_ends_every_call() {
        let calls = Calls::default();
        let (_, w) = calls.open(None).unwrap();
        calls.end();
        assert!(w.wait().is_none());
        assert!(calls.open(None).is_none());
    }
}
