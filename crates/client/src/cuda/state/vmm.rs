//! Memory that the program makes and maps itself, and what other processes share.

use super::prelude::*;
use super::space::{Reservations, Share};

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
}

/// Memory at an address.
#[derive(Debug)]
pub struct Mapping {
    /// Its length.
    pub size: u64,
    /// The id of the memory.
    pub allocation: u32,
    /// What the program was let do with it last.
    pub access: u32,
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

    /// The reservation that mapped memory lies in: where it begins, and its length.
    pub fn reserved(&self, p: u64) -> Option<(u64, u64)> {
        self.mapping(p)?;
        self.reservations.around(p)
    }

    /// Forgets memory that is neither held nor mapped; whether it was there, and was such.
    pub fn take_unused(&mut self, id: u32) -> bool {
        let held = self.allocations.get(&id).is_none_or(|a| a.held > 0);
        let mapped = self.mappings.values().any(|m| m.allocation == id);
        !held && !mapped && self.allocations.remove(&id).is_some()
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
        };
        v.allocations.insert(7, memory);
        let mapping = Mapping {
            size: GRANULE,
            allocation: 7,
            access: 3,
        };
        v.mappings.insert(at, mapping);
        assert_eq!((v.access(at), v.access(at + GRANULE)), (Some(3), None));
        assert_eq!(v.reserved(at + 5), Some((at, 2 * GRANULE)));
        assert_eq!(v.touching(at + GRANULE - 1, 2).count(), 1);
        assert_eq!(v.touching(at + GRANULE, 2).count(), 0);
        assert!(!v.take_unused(7), "held and mapped");
        v.allocations.get_mut(&7).expect("known").held = 0;
        assert!(!v.take_unused(7), "mapped");
        v.mappings.clear();
        assert!(v.take_unused(7) && !v.take_unused(7));
    }
}
