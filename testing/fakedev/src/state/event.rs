//! Events.

use super::handle::{self, Table};
use super::stream;
use crate::ffi::*;
use std::sync::{Arc, Condvar, LazyLock, Mutex};
use std::time::Instant;

/// All events, by handle.
pub static EVENTS: Table<Event> = Table::new();

const DISABLE_TIMING: u32 = 2;

/// The time; without threads it stands still, as all else is the same each time.
fn now() -> Instant {
    static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
    match stream::alone() {
        true => *FIRST,
        false => Instant::now(),
    }
}

/// One recording of an event: a point in a stream's work.
#[derive(Default)]
pub struct Record {
    done: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Record {
    /// The stream has come to this point.
    pub fn complete(&self) {
        *self.done.lock().unwrap() = Some(now());
        self.changed.notify_all();
    }

    /// Waits until the stream has come to this point.
    pub fn wait(&self) {
        if stream::alone() {
            return stream::wait_alone(|| self.time().is_some());
        }
        let done = self.done.lock().unwrap();
        drop(
            self.changed
                .wait_while(done, |done| done.is_none())
                .unwrap(),
        );
    }

    /// When the stream came to this point.
    pub fn time(&self) -> Option<Instant> {
        *self.done.lock().unwrap()
    }
}

/// An event.
pub struct Event {
    /// Its handle.
    pub handle: usize,
    flags: u32,
    /// The handle of its context.
    pub context: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    recorded: bool,
    latest: Arc<Record>,
    /// The id of the capture, and the nodes that the event stands for in it.
    captured: Option<(u64, Vec<CUgraphNode>)>,
}

impl Event {
    /// A new event of a context.
    pub fn create(flags: u32, context: usize) -> Arc<Event> {
        let event = Arc::new(Event {
            handle: handle::fresh(),
            flags,
            context,
            state: Mutex::default(),
        });
        EVENTS.insert(event.handle, event.clone());
        event
    }

    /// What was recorded last.
    pub fn latest(&self) -> Arc<Record> {
        self.state.lock().unwrap().latest.clone()
    }

    /// What was recorded last, if anything was.
    pub fn recorded(&self) -> Option<Arc<Record>> {
        let state = self.state.lock().unwrap();
        state.recorded.then(|| state.latest.clone())
    }

    /// The capture that it was recorded in last, by its id, and the nodes that it stands for there.
    pub fn captured(&self) -> Option<(u64, Vec<CUgraphNode>)> {
        self.state.lock().unwrap().captured.clone()
    }

    /// Lets it stand for nodes of a capture.
    pub fn capture(&self, id: u64, nodes: Vec<CUgraphNode>) {
        self.state.lock().unwrap().captured = Some((id, nodes));
    }

    /// Whether it tells when it happened.
    pub fn keeps_time(&self) -> bool {
        self.flags & DISABLE_TIMING == 0
    }

    /// Begins a new recording.
    pub fn arm(&self) -> Arc<Record> {
        let record = Arc::new(Record::default());
        let mut state = self.state.lock().unwrap();
        *state = State {
            recorded: true,
            latest: record.clone(),
            captured: None,
        };
        record
    }
}
