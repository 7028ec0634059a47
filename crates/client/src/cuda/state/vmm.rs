//! Memory that the program makes and maps itself, and what other processes share.

use super::host_file::HostFile;
use super::prelude::*;
use super::space::{Reservations, Share};

/// Where the program's pages of memory are.
#[derive(Debug, Clone)]
pub enum Pages {
    /// It has none: the memory is a device's.
    None,
    /// At an address.
    At(u64),
    /// In a file, which may be mapped at any number of places.
    In(Arc<HostFile>),
}

impl Pages {
    /// Whether the memory is the host's.
    pub fn is_any(&self) -> bool {
        !matches!(self, Self::None)
    }
}

/// Memory that `cuMemCreate` made, or another process.
#[derive(Debug)]
pub struct Allocation {
    /// Its length.
    pub size: u64,
    /// What it was asked for, as bytes.
    pub props: Vec<u8>,
    /// The device that has it.
    pub device: CUdevice,
    /// How often the program holds it.
    pub held: u32,
    pub pages: Pages,
}

/// Memory at an address.
#[derive(Debug)]
pub struct Mapping {
    /// Its length.
    pub size: u64,
    /// The id of the memory.
    pub allocation: u32,
    /// What the device that has it may do with it, or of memory of the host any.
    pub access: u32,
    /// What the program may do with memory of the host.
    pub by_host: u32,
    /// What other devices may do with it.
    pub by_others: BTreeMap<CUdevice, u32>,
}

/// Memory that the program makes and maps itself.
#[derive(Debug, Default)]
pub struct Vmm {
    /// Addresses that are reserved.
    pub reservations: Reservations,
    /// Memory by id.
    pub allocations: HashMap<u32, Allocation>,
    /// Mappings by address.
    pub mappings: BTreeMap<u64, Mapping>,
}

impl Vmm {
    /// None, of a share of the addresses.
    pub fn of(share: Share) -> Self {
        Self {
            reservations: Reservations::of(share),
            ..Self::default()
        }
    }

    /// The mapping that an address lies in.
    pub fn mapping(&self, p: u64) -> Option<&Mapping> {
        let (va, m) = self.mappings.range(..=p).next_back()?;
        (p - va < m.size).then_some(m)
    }

    /// What the program may do with mapped memory; `None` where nothing is mapped.
    pub fn access(&self, p: u64) -> Option<u32> {
        self.mapping(p).map(|m| m.access)
    }

    /// What a device may do with what is mapped at an address.
    pub fn access_by(&self, p: u64, device: CUdevice) -> Option<u32> {
        let m = self.mapping(p)?;
        let home = self.allocations.get(&m.allocation);
        match home.is_none_or(|home| home.device == device) {
            true => Some(m.access),
            false => Some(m.by_others.get(&device).copied().unwrap_or(0)),
        }
    }

    /// The reservation that mapped memory lies in: where it begins, and its length.
    pub fn reserved(&self, p: u64) -> Option<(u64, u64)> {
        self.mapping(p)?;
        self.reservations.around(p)
    }

    /// Whether memory is mapped anywhere.
    pub fn is_mapped(&self, id: u32) -> bool {
        self.mappings.values().any(|m| m.allocation == id)
    }

    /// Forgets memory that is neither held nor mapped, if it was there, and was such.
    pub fn take_unused(&mut self, id: u32) -> Option<Allocation> {
        let held = self.allocations.get(&id).is_none_or(|a| a.held > 0);
        let unused = !held && !self.is_mapped(id);
        unused.then(|| self.allocations.remove(&id))?
    }

    /// Whether all of some addresses are mapped.
    pub fn covers(&self, p: u64, size: u64) -> bool {
        let Some(end) = p.checked_add(size) else {
            return false;
        };
        let mut at = p;
        for (va, m) in self.touching(p, size) {
            if *va > at {
                return false;
            }
            at = va + m.size;
        }
        at >= end && size > 0
    }

    /// The mappings of memory of the host in a range.
    pub fn of_host(&self, p: u64, size: u64) -> Vec<(u64, u64)> {
        let is_host = |m: &Mapping| {
            let home = self.allocations.get(&m.allocation);
            home.is_some_and(|home| home.pages.is_any())
        };
        let all = self.touching(p, size).filter(|(_, m)| is_host(m));
        all.map(|(va, m)| (*va, m.size)).collect()
    }

    /// The mappings that a range has anything in common with.
    pub fn touching(&self, p: u64, size: u64) -> impl Iterator<Item = (&u64, &Mapping)> {
        let all = self.mappings.range(..p.saturating_add(size));
        all.filter(move |(va, m)| **va + m.size > p)
    }
}

/// A mapping that this process has imported.
#[derive(Debug)]
pub struct Import {
    /// Where it is mapped.
    pub at: u64,
    /// For which device.
    pub device: CUdevice,
    /// Bytes of the mapping.
    pub mapped: u64,
    /// The context it was imported in.
    pub context: u32,
    /// How often each allocation in it is open, by address.
    pub open: HashMap<u64, u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::state::space::GRANULE;

    #[test]
    fn memory_goes_once_it_is_neither_held_nor_mapped() {
        let mut v = Vmm::default();
        let at = v.reservations.take(2 * GRANULE, 0).expect("there is room");
        let memory = Allocation {
            size: GRANULE,
            props: vec![],
            device: 0,
            held: 1,
            pages: Pages::None,
        };
        v.allocations.insert(7, memory);
        let mapping = Mapping {
            size: GRANULE,
            allocation: 7,
            access: 3,
            by_host: 0,
            by_others: BTreeMap::from([(1, 3), (2, 0)]),
        };
        v.mappings.insert(at, mapping);
        assert_eq!((v.access(at), v.access(at + GRANULE)), (Some(3), None));
        let by = |device| v.access_by(at + 5, device);
        assert_eq!([0, 1, 2, 3].map(by), [3, 3, 0, 0].map(Some));
        assert_eq!(v.reserved(at + 5), Some((at, 2 * GRANULE)));
        assert_eq!(v.touching(at + GRANULE - 1, 2).count(), 1);
        assert_eq!(v.touching(at + GRANULE, 2).count(), 0);
        assert!(v.covers(at, GRANULE) && v.covers(at + 5, 10) && v.of_host(at, 9).is_empty());
        assert!(!v.covers(at, GRANULE + 1) && !v.covers(at, 0) && !v.covers(at - 1, 2));
        assert!(v.take_unused(7).is_none(), "held and mapped");
        v.allocations.get_mut(&7).expect("known").held = 0;
        assert!(v.take_unused(7).is_none(), "mapped");
        v.mappings.clear();
        assert!(v.take_unused(7).is_some() && v.take_unused(7).is_none());
    }
}
