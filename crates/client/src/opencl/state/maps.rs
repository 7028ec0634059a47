//! The mapped regions of an object, and the memory that stands for it.
#![forbid(unsafe_code)]

use super::prelude::*;
use busbar_abi::opencl::{
    CL_INVALID_VALUE, CL_MAP_FAILURE, CL_MAP_READ, CL_MAP_WRITE, CL_MAP_WRITE_INVALIDATE_REGION,
};
use std::any::Any;

/// One mapped region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The pointer that the program got.
    pub at: usize,
    /// Flags.
    pub flags: u64,
    /// Bytes (buffers): offset and size.
    pub range: (usize, usize),
    /// Pixels (images): origin and region.
    pub area: ([u64; 3], [u64; 3]),
}

impl Mapping {
    /// Whether the program may have written it.
    pub fn writes(&self) -> bool {
        self.flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION) != 0
    }
}

/// What a map asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The program reads the region.
    pub reads: bool,
    /// The program writes the region.
    pub writes: bool,
    /// Contents must come first.
    pub fetches: bool,
}

/// Reads the flags of a map. Drivers take a region whose contents are read and dropped, which the
/// standard refuses: it has its contents.
pub fn access(flags: u64) -> Result<Access> {
    let known = CL_MAP_READ | CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION;
    refuse_if(flags & !known != 0, CL_INVALID_VALUE)?;
    let drops = flags & CL_MAP_WRITE_INVALIDATE_REGION != 0;
    let (reads, writes) = (flags & CL_MAP_READ != 0, flags & CL_MAP_WRITE != 0);
    Ok(Access {
        reads,
        writes: drops || writes,
        fetches: !drops || reads || writes,
    })
}

/// Memory that stands for an object for as long as the object is there.
pub struct Shadow {
    /// Its first byte.
    pub at: usize,
    /// The number under which a worker on this host has it, too; 0 for none.
    pub number: u64,
    /// Keeps it.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// The mapped regions of an object.
#[derive(Default)]
pub struct Maps {
    shadow: OnceLock<Option<Shadow>>,
    list: Mutex<Vec<Mapping>>,
}

impl Maps {
    /// How many regions are mapped.
    pub fn count(&self) -> usize {
        lock(&self.list).len()
    }

    /// The object's shadow, made by `make` the first time.
    pub fn shadow(&self, make: impl FnOnce() -> Option<Shadow>) -> Result<&Shadow> {
        let shadow = self.shadow.get_or_init(make).as_ref();
        shadow.ok_or(CL_MAP_FAILURE)
    }

    /// The object's shadow, if it has one.
    pub fn made(&self) -> Option<&Shadow> {
        self.shadow.get()?.as_ref()
    }

    /// Notes a mapped region.
    pub fn add(&self, m: Mapping) {
        lock(&self.list).push(m);
    }

    /// The region that was mapped last at this place; it is mapped no more.
    pub fn take(&self, at: usize) -> Result<Mapping> {
        let mut list = lock(&self.list);
        let i = list.iter().rposition(|m| m.at == at);
        i.map(|i| list.remove(i)).ok_or(CL_INVALID_VALUE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(at: usize, flags: u64) -> Mapping {
        Mapping {
            at,
            flags,
            range: (0, 4),
            area: Default::default(),
        }
    }

    #[test]
    fn regions_are_unmapped_one_by_one_and_the_last_first() {
        let maps = Maps::default();
        let (first, second) = (mapping(16, CL_MAP_READ), mapping(16, CL_MAP_WRITE));
        maps.add(first);
        maps.add(second);
        maps.add(mapping(32, CL_MAP_READ));
        assert_eq!(maps.count(), 3);
        assert_eq!((maps.take(16), maps.take(16)), (Ok(second), Ok(first)));
        assert_eq!(maps.take(16), Err(CL_INVALID_VALUE));
        assert!(second.writes() && !first.writes());
    }

    #[test]
    fn contents_that_the_program_overwrites_are_not_fetched() {
        let a = access(CL_MAP_READ | CL_MAP_WRITE_INVALIDATE_REGION).unwrap();
        assert!(a.writes && a.reads && a.fetches);
        assert!(access(CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION).is_ok_and(|a| a.fetches));
        assert_eq!(access(1 << 40), Err(CL_INVALID_VALUE));
        let a = access(CL_MAP_WRITE_INVALIDATE_REGION).unwrap();
        assert!(a.writes && !a.reads && !a.fetches);
        let a = access(CL_MAP_WRITE).unwrap();
        assert!(a.writes && !a.reads && a.fetches);
    }

    #[test]
    fn an_object_has_one_shadow_or_none_for_ever() {
        let maps = Maps::default();
        let shadow = || {
            Some(Shadow {
                at: 4096,
                number: 0,
                keep: Box::new(()),
            })
        };
        assert!(maps.made().is_none());
        assert_eq!(maps.shadow(shadow).unwrap().at, 4096);
        assert_eq!(maps.shadow(|| None).unwrap().at, 4096);
        let none = Maps::default();
        assert!(none.shadow(|| None).is_err() && none.shadow(shadow).is_err());
    }
}
