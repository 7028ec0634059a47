//! Host memory at addresses of the program's: what a program on this host shares, and what stands
//! for memory of a program elsewhere.

use super::mapped::in_ranges;
use super::prelude::*;
use super::twins::Twins;
use crate::memory::{Charge, Gate, Use};
use crate::shared::Offers;
use busbar_transport::shared::Segment;
use busbar_wire::generated::cuda::contract;

/// Where the client puts such memory: a range that the driver has no part in.
const RANGE: std::ops::Range<u64> = contract::span(contract::SHARED);
const PAGE: u64 = 4096;
/// A program's own memory lies between these.
const LOWEST: u64 = 1 << 20;
const HIGHEST: u64 = 1 << 47;
/// Segments of one session: each is a mapping, of which a process may not have very many.
const MOST: usize = 16 << 10;

/// Memory that the program shares.
pub struct Piece {
    size: u64,
    /// The context in which it is registered, which keeps it known to the driver for all of them;
    /// 0 while it is in none.
    context: u32,
}

/// What is mapped.
pub struct Shared {
    pub offers: Option<Offers>,
    /// By address.
    pub segments: BTreeMap<u64, Piece>,
    /// What stands for memory of a program elsewhere.
    pub twins: Twins,
    pub bytes: u64,
    gate: Gate,
    /// What is counted of either, by address.
    counted: BTreeMap<u64, Charge>,
    /// Bytes that one session may have mapped: half of the host's.
    pub most_bytes: u64,
}

/// Whether a program has its own memory at such addresses.
pub fn is_the_programs(from: u64, to: u64) -> bool {
    from >= LOWEST && from < to && to <= HIGHEST && !in_ranges(from) && !in_ranges(to - 1)
}

impl Shared {
    pub fn new(offers: Option<Offers>, twins: Twins, gate: Gate) -> Self {
        Self {
            offers,
            segments: BTreeMap::new(),
            twins,
            bytes: 0,
            gate,
            counted: BTreeMap::new(),
            most_bytes: crate::host::memory() / 2,
        }
    }

    /// Whether all of these bytes are in one segment.
    pub fn holds(&self, p: u64, len: u64) -> bool {
        let found = self.segments.range(..=p).next_back();
        found.is_some_and(|(at, s)| p - at < s.size && len <= s.size - (p - at))
    }

    /// A segment is registered in a context now.
    pub fn registered(&mut self, va: u64, context: u32) {
        if let Some(s) = self.segments.get_mut(&va) {
            s.context = context;
        }
    }

    /// A context goes: the segments that were registered there are so in none.
    pub fn lose(&mut self, context: u32) -> Vec<u64> {
        let of_it = self
            .segments
            .iter_mut()
            .filter(|(_, s)| s.context == context);
        let lost = of_it.map(|(va, s)| {
            s.context = 0;
            *va
        });
        lost.collect()
    }

    /// The segments that are registered nowhere, with their lengths.
    pub fn lost(&self) -> Vec<(u64, u64)> {
        let lost = self.segments.iter().filter(|(_, s)| s.context == 0);
        lost.map(|(va, s)| (*va, s.size)).collect()
    }

    /// Takes memory of this host for the session, without an address.
    pub fn take(&self, size: u64) -> Result<Charge> {
        let all: u64 = self.gate.of_host().values().map(|m| m.bytes).sum();
        let fits = all.checked_add(size).is_some_and(|n| n <= self.most_bytes);
        refuse_if(!fits, CUDA_ERROR_OUT_OF_MEMORY)?;
        Ok(self.gate.found(Use::Twin, None, size))
    }

    /// Maps memory that stands for the program's at `origin`, registered in a context.
    pub fn map_twin(&mut self, (va, size): (u64, u64), origin: u64, context: u32) -> Result {
        let whole = size > 0 && (va | size).is_multiple_of(PAGE);
        let end = va.checked_add(size).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let range = [contract::HOST, contract::WINDOW].map(contract::span);
        let ours = range.iter().any(|r| r.contains(&va) && end <= r.end);
        let own = is_the_programs(va, end);
        refuse_if(!whole, CUDA_ERROR_INVALID_VALUE)?;
        refuse_if(!(ours || own && va == origin), CUDA_ERROR_INVALID_VALUE)?;
        if self.bytes + size > self.most_bytes {
            return Err(CUDA_ERROR_OUT_OF_MEMORY);
        }
        let mapped = self.twins.map(va, size, origin, context);
        mapped.map_err(|_| CUDA_ERROR_OUT_OF_MEMORY)?;
        self.count(Use::Twin, va, size);
        Ok(())
    }

    /// The length of what is mapped at an address.
    pub fn size(&self, va: u64) -> Option<u64> {
        let shared = self.segments.get(&va).map(|s| s.size);
        let known = shared.or_else(|| self.twins.size(va));
        // What the driver has made is not ours to unmap.
        known.filter(|_| self.counted.contains_key(&va))
    }

    /// Maps what was handed over under a number.
    pub fn map(&mut self, va: u64, size: u64, number: u64) -> Result {
        let offers = self.offers.as_ref().ok_or(CUDA_ERROR_NOT_SUPPORTED)?;
        let (memory, len) = offers.take(number).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let whole = size > 0 && size <= len && (va | size).is_multiple_of(PAGE);
        refuse_if(!whole || !RANGE.contains(&va), CUDA_ERROR_INVALID_VALUE)?;
        refuse_if(size > RANGE.end - va, CUDA_ERROR_INVALID_VALUE)?;
        if self.segments.len() >= MOST || self.bytes + size > self.most_bytes {
            return Err(CUDA_ERROR_OUT_OF_MEMORY);
        }
        // Nothing is replaced, be it ours or the driver's.
        memory.map(va, size).map_err(|_| CUDA_ERROR_OUT_OF_MEMORY)?;
        self.segments.insert(va, Piece { size, context: 0 });
        self.count(Use::Shared, va, size);
        Ok(())
    }

    fn count(&mut self, kind: Use, va: u64, size: u64) {
        self.bytes += size;
        self.counted.insert(va, self.gate.found(kind, None, size));
    }

    pub fn unmap(&mut self, va: u64) {
        self.counted.remove(&va);
        if let Some(size) = self.twins.unmap(va) {
            self.bytes -= size;
        }
        if let Some(Piece { size, .. }) = self.segments.remove(&va) {
            self.bytes -= size;
            // SAFETY: mapped above, and neither the driver nor a copy uses it any more.
            unsafe { Segment::unmap(va, size) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_control::hello::SHARED_PROOF;
    use busbar_transport::shared::{Door, hand_over};

    const VA: u64 = RANGE.start + (5 << 30);

    #[test]
    fn only_what_was_handed_over_is_mapped_and_only_where_it_belongs() {
        let offers = Offers::open(Door::open().unwrap(), "s").unwrap();
        let name = offers.name().to_string();
        let segment = Segment::new(4 * PAGE).unwrap();
        let proof = blake3::derive_key(SHARED_PROOF, b"s");
        let give = |number| hand_over(&name, number, 4 * PAGE, &proof, &segment).unwrap();
        let mut s = Shared::new(Some(offers), Twins::default(), Gate::default());
        assert_eq!(
            s.map(VA, PAGE, 1),
            Err(CUDA_ERROR_INVALID_VALUE),
            "never given"
        );
        let wrong = [
            (VA, 5 * PAGE),
            (VA + 1, PAGE),
            (VA, PAGE + 1),
            (VA, 0),
            (RANGE.start - PAGE, PAGE),
            (RANGE.end - PAGE, 2 * PAGE),
            (u64::MAX - PAGE + 1, PAGE),
        ];
        for (i, (va, size)) in wrong.into_iter().enumerate() {
            give(i as u64);
            let refused = s.map(va, size, i as u64);
            assert_eq!(refused, Err(CUDA_ERROR_INVALID_VALUE), "{va:#x} {size:#x}");
        }
        give(10);
        assert_eq!(s.map(VA, 4 * PAGE, 10), Ok(()));
        give(11);
        let taken = s.map(VA + 3 * PAGE, PAGE, 11);
        assert_eq!(
            taken,
            Err(CUDA_ERROR_OUT_OF_MEMORY),
            "there is something already"
        );
        assert!(s.holds(VA, 4 * PAGE) && s.holds(VA + 5, 4 * PAGE - 5));
        assert!(!s.holds(VA, 4 * PAGE + 1) && !s.holds(VA - 1, 2) && !s.holds(VA, u64::MAX));
        assert_eq!(s.lost(), [(VA, 4 * PAGE)]);
        s.registered(VA, 3);
        assert_eq!((s.lost(), s.lose(4)), (vec![], vec![]));
        assert_eq!((s.lose(3), s.lost()), (vec![VA], vec![(VA, 4 * PAGE)]));
        s.unmap(VA);
        assert!(!s.holds(VA, 1) && s.bytes == 0);
    }

    #[test]
    fn what_stands_for_memory_elsewhere_is_where_such_memory_may_be() {
        let mut s = Shared::new(None, Twins::default(), Gate::default());
        let host = contract::span(contract::HOST);
        let wrong = [
            (VA, PAGE),
            (host.start + (6 << 30) + 1, PAGE),
            (host.start, 0),
            (host.start - PAGE, PAGE),
            (contract::span(contract::WINDOW).end - PAGE, 2 * PAGE),
        ];
        for (va, size) in wrong {
            let refused = s.map_twin((va, size), va, 1);
            assert_eq!(refused, Err(CUDA_ERROR_INVALID_VALUE), "{va:#x} {size:#x}");
        }
        let most = s.most_bytes.next_multiple_of(PAGE) + PAGE;
        let refused = s.map_twin((host.start, most), PAGE, 1);
        assert_eq!(refused, Err(CUDA_ERROR_OUT_OF_MEMORY));
        let va = host.start + (6 << 30);
        assert_eq!(s.map_twin((va, 2 * PAGE), PAGE, 1), Ok(()));
        assert_eq!((s.size(va), s.bytes), (Some(2 * PAGE), 2 * PAGE));
        let counted = |s: &Shared| s.gate.of_host()["twin"].bytes;
        assert_eq!(counted(&s), 2 * PAGE);
        s.unmap(va);
        assert_eq!((s.size(va), s.bytes, counted(&s)), (None, 0, 0));
    }

    #[test]
    fn a_session_shares_no_more_than_it_may() {
        let offers = Offers::open(Door::open().unwrap(), "s").unwrap();
        let name = offers.name().to_string();
        let mut s = Shared::new(Some(offers), Twins::default(), Gate::default());
        let size = s.most_bytes.next_multiple_of(PAGE) + PAGE;
        let segment = Segment::new(size).unwrap();
        let proof = blake3::derive_key(SHARED_PROOF, b"s");
        hand_over(&name, 1, size, &proof, &segment).unwrap();
        assert_eq!(
            s.map(VA + (1 << 36), size, 1),
            Err(CUDA_ERROR_OUT_OF_MEMORY)
        );
    }
}
