//! CUDA: executing driver calls.
//!
//! [`Cuda`] is the executor's state: the loaded driver, the tables from the client's ids to the
//! driver's handles, and which context is current; `state/` has its parts, none of which knows the
//! whole. `generated/` decodes each record and makes the call; what needs thought is in a file per
//! family, as on the client's side. Nothing here waits for the device on the executor's thread if
//! it can be helped: copies to the host, questions and calls that wait go to the completion engine
//! ([`crate::done`]), whose side of this API is [`done`].

// Functions of the driver API keep their C names in calls.
#![allow(non_snake_case)]

mod across;
mod activity;
mod address;
mod array;
mod atomics;
mod blame;
mod checkpoint;
mod compile;
mod compiled;
mod context;
mod copy;
mod copy_rows;
mod cupti;
mod device;
mod done;
mod driver;
mod event;
mod generated;
mod graph;
mod graph_exec;
mod graph_host;
mod graph_memory;
mod graph_node;
mod graph_walk;
mod green;
pub mod image;
mod ipc;
mod launch;
mod library;
mod link;
mod locals;
mod logs;
mod memory;
mod module;
mod mover;
mod occupancy;
mod part;
mod peer;
mod pool;
mod prelude;
mod promised;
mod reach;
mod room;
mod session;
mod shadow;
mod shared;
mod state;
mod stream;
mod submit;
mod taken;
mod tensor;
mod texture;
mod times;
mod turns;
mod user_object;
mod vacant;
mod vmm;

use crate::printed::Printed;
use crate::staging::Hold;
use crate::{Api, Setup};
use busbar_control::hello::Refusal;
use busbar_wire::WireError;
use busbar_wire::record::{Header, Heard};
use done::{Completer, Events};
use session::COMPLAINTS;
use state::{execs, exports, given, handles, listeners, segments, settled};
use std::collections::{BTreeMap, HashMap, HashSet};

pub use cupti::installed as installed_cupti;
pub use device::probe;
pub(crate) use driver::load;
pub(crate) use session::{Cuda, Mark, Visit};

/// Opens a session's CUDA side.
pub fn open(setup: Setup) -> Result<Box<dyn Api>, Refusal> {
    let driver = load(setup.library.as_deref()).map_err(|why| Refusal::new("no_device", why))?;
    let mut n = 0;
    // SAFETY: a pointer to a live integer.
    unsafe { driver.cuDeviceGetCount(&mut n) };
    let allowed: Vec<i32> = (0..n)
        .filter(|d| {
            setup
                .devices
                .as_ref()
                .is_none_or(|s| s.contains(&(*d as u32)))
        })
        .collect();
    if allowed.is_empty() {
        return Err(Refusal::new(
            "no_device",
            "the server has no GPU for this session",
        ));
    }
    let blame = blame::Blame::new(driver, setup.outbox.clone(), setup.peers.clone());
    let lost = blame.clone();
    setup
        .turn
        .on_end(move || lost.lose_all(busbar_abi::cuda::CUDA_ERROR_LAUNCH_TIMEOUT));
    checkpoint::Steps::serve(driver, &setup, &allowed);
    let printed = Printed::capture(setup.outbox.clone(), true);
    let graphs = execs::Graphs::default();
    let twins = state::twins::Twins::of(graphs.mirrors.image.clone());
    let (told, outbox) = (twins.clone(), setup.outbox.clone());
    let tell = move || _ = mover::tell(&told, &outbox, Heard::WithAnswers);
    let (outbox, turn) = (setup.outbox.clone(), setup.turn.clone());
    let events = Events::new(driver, outbox, blame.clone(), printed, turn, tell);
    let completer = Completer::start(events)
        .map_err(|e| Refusal::new("internal", format!("cannot start a thread: {e}")))?;
    let places = mover::Places::default();
    let mirrors = graphs.mirrors.by_id();
    let far = (mirrors, twins.clone());
    let mover = mover::Mover::new(driver, places.clone(), far, blame.clone(), &setup);
    setup.ahead.serve(Box::new(mover));
    let promises =
        promised::Promises::new(setup.callbacks, completer.clone(), setup.outbox.clone());
    Ok(Box::new(Cuda {
        driver,
        outbox: setup.outbox,
        record: Header::default(),
        blame,
        content: setup.content,
        compiled: compiled::Compiled::new(setup.confined),
        promises,
        reads: promised::Reads::default(),
        ahead: setup.ahead,
        places,
        gate: setup.inventory.gate.clone(),
        checkpoints: setup.checkpoints,
        neighbours: setup.neighbours,
        turns: turns::Turns::new(setup.turn, allowed.clone()),
        submitters: submit::Submitters::new(driver, setup.submitters),
        devices: allowed.clone(),
        allowed,
        handles: handles::Handles::new(&setup.inventory),
        pointers: Vec::new(),
        kept_parameters: Default::default(),
        kept_bytes: Default::default(),
        current: 0,
        slab: None,
        incoming: setup.incoming,
        outgoing: setup.outgoing,
        detours: std::sync::Arc::default(),
        hurried: false,
        completer,
        links: setup.links,
        mapped: BTreeMap::new(),
        physical: BTreeMap::new(),
        pooled: HashMap::new(),
        in_pools: HashMap::new(),
        kept: HashMap::new(),
        taken: taken::Taken::new(setup.nvml),
        pools: HashMap::new(),
        primaries: HashMap::new(),
        retained: HashMap::new(),
        shared: segments::Shared::new(setup.shared, twins, setup.inventory.gate.clone()),
        exports: exports::Exports::default(),
        given: given::Given::default(),
        reserved: HashSet::new(),
        graphs,
        captures: HashSet::new(),
        peers: HashSet::new(),
        relaxed: false,
        dense: setup.dense,
        settled: settled::Settled::default(),
        complaints: COMPLAINTS,
        logs: listeners::Logs::new(driver),
        activity: cupti::Activity::new(setup.cupti),
    }))
}

impl Api for Cuda {
    fn execute(
        &mut self,
        h: &Header,
        payload: &[u8],
        hold: &mut Hold<'_>,
    ) -> Result<(), WireError> {
        if !self.relaxed {
            self.relaxed = true;
            driver::relax(self.driver);
        }
        if self.submitters.concerns() && !submit::is_queued(h) {
            self.come_after();
        }
        self.enter(h.aux);
        self.slab = hold.take();
        self.record = *h;
        if self.turns.before(h.op) {
            self.mark();
        }
        if !self.kept.is_empty() && self.completer.probe().has_waited() {
            self.count_kept();
        }
        let done = match self.has_no_room_for(h.op) {
            true => self.answer::<(), _>(Err(busbar_abi::cuda::CUDA_ERROR_OUT_OF_MEMORY)),
            false => generated::dispatch(self, payload),
        };
        if std::mem::take(&mut self.graphs.uncounted) {
            self.count_for_graphs();
        }
        // Still there when no copy out of it is under way.
        self.slab = None;
        if self.turns.after(false) {
            self.mark();
        }
        done
    }

    fn poll(&mut self, leisure: bool) -> bool {
        if self.submitters.have_failed() {
            self.tell_refused();
        }
        if self.turns.begin() {
            self.come_after();
            self.mark_all();
        }
        if self.turns.after(leisure) {
            self.mark();
        }
        let lanes = self.submitters.are_busy() && !self.submitters.rest();
        self.completer.glance() | lanes | self.turns.are_unmarked()
    }

    fn wake(&mut self) {
        self.completer.rouse();
    }

    fn marked(&mut self, mark: Option<u64>) {
        self.activity.mark(mark);
    }

    fn close(&mut self) {
        // No call of the driver's would return, and none is needed.
        if self.checkpoints.is_locked() {
            return;
        }
        self.come_after();
        self.activity.close();
        self.completer.close();
        self.count_kept();
        self.logs.close();
        if self.dense {
            self.finish();
        }
        self.compiled.close(&self.content, self.driver);
        // The process ends with the session, and the driver frees with it all that it held.
    }
}
