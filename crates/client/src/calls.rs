//! Calls that were made and not yet answered.

use crate::landing::Landing;
use crate::prelude::*;
use busbar_channel::gate::{Gate, Wait};
use busbar_channel::{look, patience};
use std::cell::RefCell;

/// An answer: the API's result code and the reply message's bytes.
#[derive(Debug, Default)]
pub struct Answer {
    /// The API's own result code.
    pub status: i32,
    /// The reply message.
    pub body: Vec<u8>,
}

/// Where one thread waits for one answer.
pub struct Waiter {
    done: AtomicBool,
    gate: Gate,
    answer: Mutex<Option<Answer>>,
}

impl Default for Waiter {
    fn default() -> Self {
        Self {
            done: AtomicBool::new(false),
            gate: Gate::new("the server's answer"),
            answer: Mutex::default(),
        }
    }
}

impl Waiter {
    fn finish(&self, answer: Option<Answer>) {
        *lock(&self.answer) = answer;
        self.done.store(true, Ordering::Release);
        self.gate.open();
    }

    /// Waits for the answer to `call`; `None` when the session ended first.
    pub fn wait(&self, call: &'static str) -> Option<Answer> {
        let done = || self.done.load(Ordering::Acquire);
        look(patience().waiting, done);
        self.gate.wait(&Wait::due(call), done);
        self.done.store(false, Ordering::Release);
        lock(&self.answer).take()
    }
}

/// What happens when the answer comes.
enum Then {
    Wake(Arc<Waiter>),
    /// Nobody waits: bulk bytes arrive, and the function hears of the end.
    Run(Box<dyn FnOnce(Option<Answer>) + Send>),
}

/// Where bulk bytes of an answer go, and how many there are at most.
enum Place {
    /// Memory that was lent for as long as the call is open.
    Lent(usize, usize),
    /// Memory that may have to be left alone meanwhile.
    Landing(Arc<Landing>),
}

impl Place {
    fn lent((p, n): (*mut u8, usize)) -> Self {
        Self::Lent(p as usize, n)
    }
}

struct Call {
    then: Then,
    place: Option<Place>,
}

#[derive(Default)]
struct Slots {
    calls: Vec<(u32, Option<Call>)>,
    free: Vec<u32>,
    ended: bool,
    live: usize,
}

/// The table of open calls.
pub struct Calls {
    slots: Mutex<Slots>,
    freed: Gate,
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            slots: Mutex::default(),
            freed: Gate::new("one of very many calls to be answered"),
        }
    }
}

const INDEX_BITS: u32 = 18;
const INDEX: u32 = (1 << INDEX_BITS) - 1;

thread_local! {
    static WAITER: RefCell<Option<Arc<Waiter>>> = const { RefCell::new(None) };
}

impl Slots {
    /// All numbers are in use: copies that nobody waits for are many. Some will be answered.
    fn full(&self) -> bool {
        !self.ended && self.free.is_empty() && self.calls.len() > INDEX as usize
    }
}

impl Calls {
    fn insert(&self, call: Call) -> Option<u32> {
        let mut s = lock(&self.slots);
        while s.full() {
            drop(s);
            let room = || !lock(&self.slots).full();
            self.freed.wait(&Wait::due("a call"), room);
            s = lock(&self.slots);
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
        let id = self.insert(Call {
            then: Then::Wake(waiter.clone()),
            place: place.map(Place::lent),
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
        self.insert(Call {
            then: Then::Run(Box::new(then)),
            place: place.map(Place::lent),
        })
    }

    /// As [`Calls::open_async`], for bytes that go where they land.
    pub fn open_landing(
        &self,
        landing: Arc<Landing>,
        then: impl FnOnce(Option<Answer>) + Send + 'static,
    ) -> Option<u32> {
        self.insert(Call {
            then: Then::Run(Box::new(then)),
            place: Some(Place::Landing(landing)),
        })
    }

    /// Runs `f` on the place of a call's bulk answer.
    fn at_place<T>(&self, call: u32, f: impl FnOnce(&Place) -> Option<T>) -> Option<T> {
        let s = lock(&self.slots);
        let slot = s.calls.get((call & INDEX) as usize)?;
        if slot.0 != call >> INDEX_BITS {
            return None;
        }
        f(slot.1.as_ref()?.place.as_ref()?)
    }

    /// Where bytes `offset..offset+len` of a call's bulk answer go, until [`Calls::placed`] is told
    /// that they are there.
    pub fn place(&self, call: u32, offset: u64, len: usize) -> Option<*mut u8> {
        let offset = usize::try_from(offset).ok()?;
        self.at_place(call, |place| match place {
            Place::Lent(p, n) => (offset.checked_add(len)? <= *n).then(|| (p + offset) as *mut u8),
            Place::Landing(l) => l.place(offset, len),
        })
    }

    /// Bytes of a call's answer are where they belong.
    pub fn placed(&self, call: u32) {
        let landing = self.at_place(call, |place| match place {
            Place::Lent(..) => None,
            Place::Landing(l) => Some(l.clone()),
        });
        if let Some(l) = landing {
            l.received();
        }
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
                        let full = s.full();
                        s.free.push(i as u32);
                        s.live -= 1;
                        if full {
                            self.freed.open();
                        }
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
            self.freed.open();
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
        assert_eq!(w.wait("a test").unwrap().status, 7);
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
        assert!(w.wait("a test").is_none());
        assert!(calls.open(None).is_none());
    }
}
