//! Device memory: every byte that a session takes passes [`Gate::take`], which knows what there is
//! of each kind, and refuses what is more than the session may have.
//!
//! Who takes memory gets a [`Charge`], and keeps it with what the memory is: dropped, it gives the
//! bytes back. What a driver takes without being asked is here as far as somebody says how much
//! that is: what pools keep the driver says, and what else it has NVML ([`Gate::measured`]).
//!
//! Memory of the host that a session has page-locked is counted beside that, and limits nothing.

#![forbid(unsafe_code)]

use crate::prelude::*;
use busbar_control::holding::{Memory, OnDevice};

/// So many bytes in whole pieces; all that there can be where that is more.
pub fn in_pieces(bytes: u64, piece: u64) -> u64 {
    bytes.checked_next_multiple_of(piece).unwrap_or(u64::MAX)
}

/// What memory is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// A context.
    Context,
    /// What functions print into, allocate from, and keep their variables in.
    Heap,
    /// Images of modules and libraries, with their variables.
    Module,
    /// Memory at an address that the client chose.
    Linear,
    /// Memory that both sides may touch.
    Managed,
    /// Physical memory that the program maps itself.
    Physical,
    /// Memory that another worker has handed on.
    Imported,
    /// Memory of pools.
    Pool,
    /// What pools and graphs keep that nobody uses.
    Kept,
    /// What graphs allocate.
    Graph,
    /// Arrays and mipmapped arrays.
    Array,
    /// Buffers.
    Buffer,
    /// Images.
    Image,
    /// Shared virtual memory.
    Svm,
    /// Memory of this host that stands for a program's elsewhere.
    Twin,
    /// Memory of a program on this host.
    Shared,
}

impl Use {
    fn name(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Heap => "heap",
            Self::Module => "module",
            Self::Linear => "linear",
            Self::Managed => "managed",
            Self::Physical => "physical",
            Self::Imported => "imported",
            Self::Pool => "pool",
            Self::Kept => "kept",
            Self::Graph => "graph",
            Self::Array => "array",
            Self::Buffer => "buffer",
            Self::Image => "image",
            Self::Svm => "svm",
            Self::Twin => "twin",
            Self::Shared => "shared",
        }
    }

    /// Whether a driver takes for it what is counted, to the byte, or says how much that is.
    fn is_exact(self) -> bool {
        use Use::{Imported, Kept, Linear, Managed, Physical, Pool};
        let exact = matches!(self, Linear | Managed | Physical | Imported | Pool | Kept);
        exact || self.of_host()
    }

    /// Whether it is memory of the host, and of no device.
    fn of_host(self) -> bool {
        matches!(self, Self::Twin | Self::Shared)
    }
}

/// What a driver has taken beyond all that is counted.
const BEYOND: &str = "driver";

/// Which device memory is of; `None` where that is open, so that it counts for each.
pub type On = Option<i32>;

/// The most bytes of device memory that a session may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limit {
    /// `None` for as many as there are.
    pub most: Option<u64>,
    /// Of each of its devices, and not of all together.
    pub of_each: bool,
}

#[derive(Default)]
struct Ledger {
    kinds: BTreeMap<Use, Memory>,
    /// Bytes of all kinds of device memory, by device.
    bytes: BTreeMap<On, u64>,
    /// Those of them that drivers have in the account of another process.
    elsewhere: BTreeMap<On, u64>,
    /// What a driver has taken of each device beyond what is counted, when that was last measured;
    /// and what that has been at most, of all.
    beyond: BTreeMap<i32, u64>,
    most_beyond: u64,
    limit: Limit,
    /// Since what drivers have was last measured, memory was given back of which they may have had
    /// more than was counted.
    less: bool,
}

impl Ledger {
    /// The bytes that the limit is for, where there are to be more on a device.
    fn bytes(&self, on: On) -> u64 {
        let each = || self.bytes.iter().filter(|(at, _)| at.is_some());
        let own = |at: On| self.bytes.get(&at).copied().unwrap_or(0) + self.beyond(at);
        let own = match on {
            _ if !self.limit.of_each => {
                let counted: u64 = each().map(|(_, n)| n).sum();
                counted + self.beyond.values().sum::<u64>()
            }
            Some(_) => own(on),
            None => each().map(|(at, _)| own(*at)).max().unwrap_or(0),
        };
        self.bytes.get(&None).copied().unwrap_or(0) + own
    }

    /// What a driver has taken of a device beyond what is counted.
    fn beyond(&self, on: On) -> u64 {
        let beyond = on.and_then(|dev| self.beyond.get(&dev));
        beyond.copied().unwrap_or(0)
    }
}

/// A session's gate. Cheap to clone.
#[derive(Clone, Default)]
pub struct Gate {
    ledger: Arc<Mutex<Ledger>>,
    /// Whoever has it keeps other threads from giving memory back.
    steady: Arc<Mutex<()>>,
    limited: Arc<AtomicBool>,
}

/// The session may not have that much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// Bytes that a session has; they are given back when this is dropped.
pub struct Charge {
    gate: Gate,
    kind: Use,
    on: On,
    bytes: u64,
}

impl Gate {
    /// Takes device memory, if the session may have that much.
    pub fn take(&self, kind: Use, on: On, bytes: u64) -> Result<Charge, Full> {
        self.take_and_leave(kind, on, bytes, 0)
    }

    /// The same, if that leaves so much of a limit.
    pub fn take_and_leave(&self, kind: Use, on: On, bytes: u64, rest: u64) -> Result<Charge, Full> {
        let l = lock(&self.ledger);
        let all = l.bytes(on).checked_add(bytes).ok_or(Full)?;
        match l.limit.most {
            Some(most) if all.saturating_add(rest) > most => Err(Full),
            _ => Ok(self.note(l, kind, on, bytes)),
        }
    }

    /// Counts what is taken already: a driver has done so by itself, or it is the host's.
    pub fn found(&self, kind: Use, on: On, bytes: u64) -> Charge {
        self.note(lock(&self.ledger), kind, on, bytes)
    }

    /// What a driver has counted of a device, as it says now, with what it has been promised to be
    /// asked for and has not been yet.
    pub fn measured(&self, device: i32, bytes: u64) {
        let mut l = lock(&self.ledger);
        let counted = |at: On| {
            let of = |all: &BTreeMap<On, u64>| all.get(&at).copied().unwrap_or(0);
            of(&l.bytes) - of(&l.elsewhere)
        };
        let beyond = bytes.saturating_sub(counted(Some(device)) + counted(None));
        l.beyond.insert(device, beyond);
        l.most_beyond = l.most_beyond.max(l.beyond.values().sum());
    }

    fn note(&self, mut l: MutexGuard<'_, Ledger>, kind: Use, on: On, bytes: u64) -> Charge {
        if !kind.of_host() {
            *l.bytes.entry(on).or_default() += bytes;
        }
        if kind == Use::Imported {
            *l.elsewhere.entry(on).or_default() += bytes;
        }
        let m = l.kinds.entry(kind).or_default();
        m.pieces += 1;
        m.bytes += bytes;
        m.most = m.most.max(m.bytes);
        Charge {
            gate: self.clone(),
            kind,
            on,
            bytes,
        }
    }

    /// Limits what the session may have from now on.
    pub fn limit(&self, limit: Limit) {
        lock(&self.ledger).limit = limit;
        let any = limit.most.is_some();
        self.limited.store(any, Ordering::Release);
    }

    /// Whether there is a limit.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.limited.load(Ordering::Acquire)
    }

    /// Whether the session has more of a device than it may: a driver took it by itself.
    pub fn is_over(&self, on: On) -> bool {
        let l = lock(&self.ledger);
        l.limit.most.is_some_and(|most| l.bytes(on) > most)
    }

    /// What a session sees of so much memory of a device: what it may have.
    pub fn part(&self, total: u64) -> u64 {
        let most = lock(&self.ledger).limit.most;
        most.map_or(total, |most| most.min(total))
    }

    /// How much more of a device a session may have, if not as much as there is; 0 when what a
    /// driver took by itself is too much.
    pub fn left(&self, on: On) -> Option<u64> {
        let l = lock(&self.ledger);
        Some(l.limit.most?.saturating_sub(l.bytes(on)))
    }

    /// Whether drivers may have less now than was measured, beyond what is counted.
    pub fn may_have_less(&self) -> bool {
        lock(&self.ledger).less
    }

    /// Nothing is given back by other threads meanwhile: what a driver says and what is counted are
    /// of one moment.
    pub fn steady(&self) -> MutexGuard<'_, ()> {
        lock(&self.steady)
    }

    /// What drivers have is measured now, of all devices.
    pub fn all_measured(&self) {
        lock(&self.ledger).less = false;
    }

    /// Bytes of a kind.
    pub fn of(&self, kind: Use) -> u64 {
        lock(&self.ledger).kinds.get(&kind).map_or(0, |m| m.bytes)
    }

    /// What there is of each device; of memory that may be on any, all of it.
    pub fn devices(&self) -> Vec<OnDevice> {
        let l = lock(&self.ledger);
        let any = l.bytes.get(&None).copied().unwrap_or(0);
        let each = l.bytes.iter().filter_map(|(on, n)| {
            let device = u32::try_from((*on)?).ok()?;
            let bytes = n + l.beyond(*on) + any;
            Some(OnDevice { device, bytes })
        });
        each.filter(|on| on.bytes > 0).collect()
    }

    /// What there is of each kind of device memory.
    pub fn figures(&self) -> BTreeMap<String, Memory> {
        let mut all = self.named(|kind| !kind.of_host());
        let l = lock(&self.ledger);
        let beyond = l.beyond.values().filter(|n| **n > 0);
        let (pieces, bytes) = (beyond.clone().count() as u64, beyond.sum());
        if l.most_beyond > 0 {
            let most = l.most_beyond;
            all.insert(
                BEYOND.into(),
                Memory {
                    pieces,
                    bytes,
                    most,
                },
            );
        }
        all
    }

    /// What there is of each kind of the host's memory.
    pub fn of_host(&self) -> BTreeMap<String, Memory> {
        self.named(Use::of_host)
    }

    fn named(&self, wanted: impl Fn(Use) -> bool) -> BTreeMap<String, Memory> {
        let l = lock(&self.ledger);
        let wanted = l.kinds.iter().filter(|(kind, _)| wanted(**kind));
        wanted.map(|(kind, m)| (kind.name().into(), *m)).collect()
    }
}

impl Charge {
    /// What it is for.
    pub fn kind(&self) -> Use {
        self.kind
    }

    /// How much it is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives the bytes back with what they are the bytes of, as any thread may.
    pub fn give_back<R>(self, free: impl FnOnce() -> R) -> R {
        let gate = self.gate.clone();
        let _steady = gate.steady();
        let done = free();
        drop(self);
        done
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut l = lock(&self.gate.ledger);
        l.less |= !self.kind.is_exact();
        if !self.kind.of_host()
            && let Some(all) = l.bytes.get_mut(&self.on)
        {
            *all -= self.bytes;
        }
        if self.kind == Use::Imported
            && let Some(all) = l.elsewhere.get_mut(&self.on)
        {
            *all -= self.bytes;
        }
        if let Some(m) = l.kinds.get_mut(&self.kind) {
            m.pieces -= 1;
            m.bytes -= self.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(gate: &Gate, kind: &str) -> (u64, u64, u64) {
        let m = gate.figures().get(kind).copied().unwrap_or_default();
        (m.pieces, m.bytes, m.most)
    }

    fn most(bytes: u64) -> Limit {
        Limit {
            most: Some(bytes),
            of_each: false,
        }
    }

    #[test]
    fn a_part_of_each_of_several_devices_is_no_more_of_any() {
        let gate = Gate::default();
        let each = Limit {
            of_each: true,
            ..most(100)
        };
        gate.limit(each);
        let a = gate.take(Use::Linear, Some(0), 80).unwrap();
        let b = gate.take(Use::Linear, Some(1), 100).unwrap();
        assert_eq!(gate.take(Use::Linear, Some(0), 21).err(), Some(Full));
        assert_eq!(
            (gate.left(Some(0)), gate.left(Some(1))),
            (Some(20), Some(0))
        );
        assert_eq!(gate.left(Some(2)), Some(100));
        // What may be on any has to fit on all of them.
        assert_eq!(gate.take(Use::Module, None, 1).err(), Some(Full));
        drop(b);
        let c = gate.take(Use::Module, None, 20).unwrap();
        assert_eq!(
            (gate.left(Some(0)), gate.left(Some(1))),
            (Some(0), Some(80))
        );
        drop((a, c));
        assert_eq!(gate.left(None), Some(100));
        // All together are another limit.
        gate.limit(most(100));
        let a = gate.take(Use::Linear, Some(0), 80).unwrap();
        assert_eq!(gate.take(Use::Linear, Some(1), 21).err(), Some(Full));
        drop(a);
    }

    #[test]
    fn what_is_taken_is_counted_until_it_is_given_back() {
        let gate = Gate::default();
        let a = gate.take(Use::Linear, None, 100).unwrap();
        let b = gate.take(Use::Linear, None, 50).unwrap();
        let c = gate.take(Use::Array, None, 7).unwrap();
        assert_eq!(of(&gate, "linear"), (2, 150, 150));
        drop(a);
        let d = gate.take(Use::Linear, None, 20).unwrap();
        assert_eq!(of(&gate, "linear"), (2, 70, 150));
        assert_eq!(of(&gate, "array"), (1, 7, 7));
        drop((b, c, d));
        assert!(
            gate.figures()
                .values()
                .all(|m| m.bytes == 0 && m.pieces == 0)
        );
        assert_eq!(of(&gate, "linear").2, 150);
        assert_eq!(of(&gate, "pool"), (0, 0, 0));
    }

    #[test]
    fn what_is_over_the_limit_of_all_kinds_is_refused_and_changes_nothing() {
        let gate = Gate::default();
        let before = gate.take(Use::Context, None, 1 << 40).unwrap();
        gate.limit(most(1000));
        assert_eq!(
            gate.take(Use::Linear, None, 0).err(),
            Some(Full),
            "over it already"
        );
        drop(before);
        let a = gate.take(Use::Linear, None, 600).unwrap();
        assert_eq!(gate.take(Use::Pool, None, 401).err(), Some(Full));
        assert_eq!(gate.take(Use::Pool, None, u64::MAX).err(), Some(Full));
        assert_eq!(of(&gate, "pool"), (0, 0, 0));
        let b = gate.take(Use::Pool, None, 400).unwrap();
        assert_eq!(gate.take(Use::Array, None, 1).err(), Some(Full));
        drop(a);
        assert!(gate.take(Use::Array, None, 600).is_ok());
        gate.limit(Limit::default());
        assert!(gate.take(Use::Array, None, 1 << 50).is_ok());
        drop(b);
    }

    #[test]
    fn pieces_of_any_number_of_bytes_are_no_fewer() {
        for (bytes, pieces) in [(0, 0), (1, 16), (16, 16), (u64::MAX, u64::MAX)] {
            assert_eq!(in_pieces(bytes, 16), pieces);
        }
    }

    #[test]
    fn what_a_driver_takes_by_itself_is_what_it_counts_and_nobody_else() {
        let gate = Gate::default();
        let beyond = || of(&gate, BEYOND).1;
        let a = gate.take(Use::Linear, Some(0), 100).unwrap();
        let b = gate.take(Use::Module, None, 7).unwrap();
        let other = gate.take(Use::Linear, Some(1), 5).unwrap();
        gate.measured(0, 137);
        gate.measured(1, 5);
        assert_eq!(of(&gate, BEYOND), (1, 30, 30));
        assert!(!gate.is_limited() && !gate.is_over(Some(0)));
        gate.limit(Limit {
            most: Some(136),
            of_each: true,
        });
        assert!(gate.is_over(Some(0)) && !gate.is_over(Some(1)));
        assert_eq!(gate.take(Use::Linear, Some(0), 1).err(), Some(Full));
        gate.limit(Limit {
            most: Some(142),
            of_each: false,
        });
        assert_eq!(gate.left(Some(0)), Some(0), "all devices together");
        drop(other);
        gate.limit(most(1000));
        // What is taken and given back does not change it.
        let c = gate.take(Use::Linear, Some(0), 50).unwrap();
        drop((a, c));
        assert_eq!((beyond(), gate.left(Some(0))), (30, Some(963)));
        // What another process has handed on is in that one's account.
        let c = gate.take(Use::Imported, Some(0), 20).unwrap();
        gate.measured(0, 37);
        assert_eq!((beyond(), gate.left(Some(0))), (30, Some(943)));
        drop(c);
        gate.measured(0, 7);
        assert_eq!(of(&gate, BEYOND), (0, 0, 30));
        drop(b);
        assert_eq!(gate.left(None), Some(1000));
    }

    #[test]
    fn what_is_not_counted_to_the_byte_may_be_less_when_it_is_given_back() {
        let gate = Gate::default();
        for (kind, less) in [(Use::Linear, false), (Use::Kept, false), (Use::Array, true)] {
            let charge = gate.take(kind, Some(0), 1).unwrap();
            assert!(!gate.may_have_less());
            drop(charge);
            assert_eq!(gate.may_have_less(), less, "{kind:?}");
            gate.all_measured();
        }
    }

    #[test]
    fn what_a_driver_took_counts_and_what_is_the_hosts_limits_nothing() {
        let gate = Gate::default();
        gate.limit(most(100));
        let host = gate.found(Use::Twin, None, 1000);
        assert_eq!(of(&gate, "twin"), (0, 0, 0), "no device's");
        assert_eq!(gate.of_host()["twin"].bytes, 1000);
        let kept = gate.found(Use::Kept, None, 90);
        assert_eq!(of(&gate, "kept"), (1, 90, 90));
        assert_eq!(gate.take(Use::Pool, None, 11).err(), Some(Full));
        drop(kept);
        assert!(gate.take(Use::Pool, None, 100).is_ok());
        drop(host);
        assert_eq!(gate.of_host()["twin"].bytes, 0);
    }
}
