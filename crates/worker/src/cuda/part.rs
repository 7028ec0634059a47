//! Device memory of a session: what it takes passes its gate here, and what the driver keeps for it
//! beyond that is counted.

use super::image::on_device;
use super::prelude::*;
use super::session::Cuda;
use super::state::mapped::Pooled;
use super::taken::BLOCK;
use crate::memory::{Charge, Full, in_pieces};
use busbar_wire::generated::cuda::op;

/// What a pool has taken of its device.
fn has(d: &Driver, pool: CUmemoryPool) -> u64 {
    let mut bytes = 0u64;
    let which = CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
    // SAFETY: a live pool, and room for the attribute, a 64-bit number.
    let rc = unsafe { d.cuMemPoolGetAttribute(pool, which, (&raw mut bytes).cast()) };
    if rc == CUDA_SUCCESS { bytes } else { 0 }
}

/// What a device has for memory of graphs.
fn for_graphs(d: &Driver, dev: i32) -> u64 {
    let mut bytes = 0u64;
    let all = CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT;
    // SAFETY: room for the attribute, a 64-bit number.
    let rc = unsafe { d.cuDeviceGetGraphMemAttribute(dev, all, (&raw mut bytes).cast()) };
    if rc == CUDA_SUCCESS { bytes } else { 0 }
}

/// What drivers take of a device at a time for pools, and for each graph (580).
pub const GRANULE: u64 = 32 << 20;

/// More than the variables of any image are, but for such as are made to be more: what these take
/// is measured when they are there.
const PLENTY: u64 = 4 << 30;

/// How long memory is waited for that a stream has yet to come to, and how often that is looked at.
const BORNE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_micros(50);

impl Cuda {
    /// Takes device memory for the session. Where there is too little left, pools and graphs give
    /// back first what nobody uses, as a driver has them do.
    pub fn charge(&mut self, kind: Use, on: On, bytes: u64) -> Result<Charge> {
        let rest = self.tables(bytes);
        self.charge_and_leave(kind, on, bytes, rest)
    }

    /// What a driver takes meanwhile for its tables is the session's, too.
    fn tables(&self, bytes: u64) -> u64 {
        if bytes > 0 { self.taken.tables() } else { 0 }
    }

    /// The same, if that leaves so much.
    fn charge_and_leave(&mut self, kind: Use, on: On, bytes: u64, rest: u64) -> Result<Charge> {
        let charge = self.pass(kind, on, bytes, rest)?;
        if kind != Use::Imported && bytes > 0 && self.neighbours.are_there() {
            self.have_room(on, bytes);
        }
        Ok(charge)
    }

    /// Has idle sessions give way to this one if there is too little of the current device for what
    /// it may take. Whether that is enough the driver says.
    fn have_room(&self, on: On, bytes: u64) {
        let here = self.current_device();
        let Some(device) = here.and_then(|dev| u32::try_from(dev).ok()) else {
            return;
        };
        let (mut free, mut total) = (0, 0);
        // SAFETY: pointers to live numbers.
        let rc = unsafe { self.cuMemGetInfo_v2(&mut free, &mut total) };
        let wanted = bytes.saturating_add(GRANULE);
        if rc == CUDA_SUCCESS && (on.is_none() || on == here) && (free as u64) < wanted {
            self.neighbours.give_way(device, wanted - free as u64);
        }
    }

    /// What idle sessions would give up of the current device.
    pub fn would_have_room(&self) -> u64 {
        let device = self
            .current_device()
            .and_then(|dev| u32::try_from(dev).ok());
        let device = device.filter(|_| self.neighbours.are_there());
        device.map_or(0, |device| self.neighbours.would_give(device))
    }

    fn pass(&mut self, kind: Use, on: On, bytes: u64, rest: u64) -> Result<Charge> {
        if !self.gate.is_limited() {
            let taken = self.gate.take(kind, on, bytes);
            return taken.map_err(|Full| CUDA_ERROR_OUT_OF_MEMORY);
        }
        if self.taken.is_old() {
            self.look();
        }
        let take = |w: &Self| w.gate.take_and_leave(kind, on, bytes, rest);
        if let Ok(charge) = take(self) {
            return Ok(charge);
        }
        self.trim_all();
        if self.gate.may_have_less() {
            self.look();
        }
        take(self).map_err(|Full| CUDA_ERROR_OUT_OF_MEMORY)
    }

    /// Takes memory for what may need up to so many bytes: how many that is is measured behind it
    /// ([`Cuda::afford`]).
    pub fn charge_of(&mut self, kind: Use, on: On, bytes: u64, most: u64) -> Result<Charge> {
        let more = in_pieces(most, BLOCK).saturating_sub(bytes);
        let rest = more.saturating_add(self.tables(bytes));
        self.charge_and_leave(kind, on, bytes, rest)
    }

    /// Takes memory for an image, whose variables may be much more than itself.
    pub fn charge_image(&mut self, on: On, image: &[u8]) -> Result<Charge> {
        // Where much is left it is not worth looking into what is packed.
        let left = self.gate.left(on);
        let most = left.map_or(0, |left| on_device(image, left < PLENTY));
        self.charge_of(Use::Module, on, image.len() as u64, most)
    }

    /// Takes memory of a pool. It may need more of the device than that, in whole pieces: what it
    /// has may be in pieces that are too small.
    pub fn charge_pool(&mut self, on: On, bytes: u64) -> Result<Charge> {
        let more = in_pieces(bytes, GRANULE) - bytes;
        self.charge_and_leave(Use::Pool, on, bytes, more)
    }

    /// Whether a pool may have so much when a stream has come to what is freed in its order. A
    /// driver would give that again at once, but it may also take more of the device. So it is
    /// waited for, as long as that can be borne: the stream may wait for the program itself.
    pub fn comes_free(&self, pool: CUmemoryPool, stream: CUstream, bytes: u64) -> bool {
        if !self.gate.is_limited() || !self.captures.is_empty() || self.kept(pool) < bytes {
            return false;
        }
        let begun = Instant::now();
        // SAFETY: a live stream, and none captures.
        while unsafe { self.cuStreamQuery(stream) } == CUDA_ERROR_NOT_READY {
            if begun.elapsed() > BORNE {
                return false;
            }
            std::thread::sleep(PAUSE);
        }
        true
    }

    /// Measures what the driver has taken; whether the session has more than its part of a device.
    /// Pools and graphs give back what nobody uses first.
    pub fn measure(&mut self) -> bool {
        if !self.gate.is_limited() {
            return false;
        }
        self.look();
        let over = |w: &Self| w.devices.iter().any(|dev| w.gate.is_over(Some(*dev)));
        if !over(self) {
            return false;
        }
        self.trim_all();
        self.look();
        over(self)
    }

    fn look(&mut self) {
        let gate = self.gate.clone();
        let _steady = gate.steady();
        let read = self.taken.read(self.driver, &self.devices);
        // What pools and graphs keep may have become less since it was noted. It is noted after it
        // was measured: what goes in between counts once more, and not once less.
        for pool in self.pools.keys().copied().collect::<Vec<_>>() {
            self.note_kept(pool as CUmemoryPool);
        }
        self.note_for_graphs();
        let promised = self.gate.of(Use::Graph).saturating_sub(self.graphs.there);
        for (dev, bytes) in read {
            self.gate.measured(dev, bytes.saturating_add(promised));
        }
        self.gate.all_measured();
    }

    /// Whether the session has more than its part by what is counted, when pools and graphs have
    /// given back what nobody uses.
    pub fn has_too_much(&mut self, on: On) -> bool {
        self.gate.is_over(on) && {
            self.trim_all();
            self.gate.is_over(on)
        }
    }

    /// What the driver has just done has a price: `undo` takes it back if that is too much.
    pub fn afford(&mut self, undo: impl FnOnce(&Driver)) -> Result {
        if !self.measure() {
            return Ok(());
        }
        undo(self.driver);
        self.look();
        Err(CUDA_ERROR_OUT_OF_MEMORY)
    }

    /// Whether a record would have the driver take memory of which there is none left.
    pub fn has_no_room_for(&mut self, op: u16) -> bool {
        use op::{CU_GREEN_CTX_STREAM_CREATE, CU_STREAM_CREATE, CU_STREAM_CREATE_WITH_PRIORITY};
        let takes = matches!(
            op,
            CU_STREAM_CREATE | CU_STREAM_CREATE_WITH_PRIORITY | CU_GREEN_CTX_STREAM_CREATE
        );
        if !takes || !self.gate.is_limited() {
            return false;
        }
        let left = |w: &Self| w.gate.left(w.current_device());
        self.measure() || left(self).is_some_and(|left| left < BLOCK)
    }

    /// Has pools and graphs give back what nobody uses.
    fn trim_all(&mut self) {
        for pool in self.pools.keys().copied().collect::<Vec<_>>() {
            self.trim_pool(pool as CUmemoryPool);
        }
        if !self.graphs.kept.is_empty() {
            self.trim_for_graphs();
        }
    }

    /// What a pool has beyond what is counted of it.
    fn kept(&self, pool: CUmemoryPool) -> u64 {
        let counted = self.in_pools.get(&(pool as u64)).copied().unwrap_or(0);
        has(self.driver, pool).saturating_sub(counted)
    }

    /// Memory of a pool is the session's.
    pub fn note_pooled(&mut self, va: u64, pool: CUmemoryPool, charge: Charge) {
        *self.in_pools.entry(pool as u64).or_default() += charge.bytes();
        let pooled = Pooled {
            context: self.record.aux,
            pool: pool as u64,
            charge: Arc::new(charge),
        };
        self.pooled.insert(va, pooled);
    }

    /// It is so no more: its pool keeps it.
    pub fn forget_pooled(&mut self, p: Pooled) {
        let pool = p.pool as CUmemoryPool;
        self.gives_back(p);
        if self.gate.is_limited() {
            self.count_pool(pool);
        }
    }

    /// Counts what a pool has beyond what is allocated from it, as the driver says. That grows when
    /// something is allocated or freed, and shrinks when it is told to, which it is if the session
    /// would have more than its part otherwise, or when somebody waits for work.
    pub fn count_pool(&mut self, pool: CUmemoryPool) {
        // Pools of other sessions and of the host are not this one's.
        if !self.pools.contains_key(&(pool as u64)) {
            return;
        }
        let kept = self.note_kept(pool);
        if kept > 0 && self.gate.is_over(self.pool_is_on(pool)) {
            self.trim_pool(pool);
        }
    }

    /// Counts again what pools keep of which something is known.
    pub fn count_kept(&mut self) {
        for pool in self.kept.keys().copied().collect::<Vec<_>>() {
            self.count_pool(pool as CUmemoryPool);
        }
    }

    /// Notes what a pool keeps, and says how much that is.
    fn note_kept(&mut self, pool: CUmemoryPool) -> u64 {
        self.kept.remove(&(pool as u64));
        let kept = self.kept(pool);
        if kept > 0 {
            let charge = self.gate.found(Use::Kept, self.pool_is_on(pool), kept);
            self.kept.insert(pool as u64, charge);
        }
        kept
    }

    /// Has a pool give back what nobody uses.
    fn trim_pool(&mut self, pool: CUmemoryPool) {
        if self.note_kept(pool) > 0 {
            // SAFETY: a live pool.
            unsafe { self.cuMemPoolTrimTo(pool, 0) };
            self.note_kept(pool);
        }
    }

    /// Counts what the driver keeps for graphs beyond what is counted by itself. If that is more
    /// than there may be, it gives back what nobody uses.
    pub fn count_for_graphs(&mut self) {
        if self.note_for_graphs() {
            self.trim_for_graphs();
        }
    }

    /// Says whether it is more than there may be.
    fn note_for_graphs(&mut self) -> bool {
        self.graphs.kept.clear();
        let (counted, mut over) = (self.graphs.there, false);
        for dev in self.devices.iter().copied().filter(|dev| *dev >= 0) {
            let kept = for_graphs(self.driver, dev).saturating_sub(counted);
            if kept > 0 {
                over |= self.gate.left(Some(dev)).is_some_and(|left| left < kept);
                let charge = self.gate.found(Use::Kept, Some(dev), kept);
                self.graphs.kept.push(charge);
            }
        }
        over
    }

    /// Has devices give back what no graph uses.
    fn trim_for_graphs(&mut self) {
        for dev in self.devices.iter().filter(|dev| **dev >= 0) {
            // SAFETY: a device's ordinal.
            unsafe { self.cuDeviceGraphMemTrim(*dev) };
        }
        self.note_for_graphs();
    }
}
