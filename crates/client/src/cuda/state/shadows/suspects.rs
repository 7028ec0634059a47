//! Which words that reach a device may be addresses of page-locked memory.

/// The most bytes that are looked through for addresses when they are sent in one piece.
pub const MOST_SCANNED: usize = 64 << 10;

/// The words among bytes for an address: those at a multiple of their size.
pub fn words(at: u64, bytes: &[u8]) -> &[[u8; 8]] {
    let first = (at.wrapping_neg() % 8) as usize;
    bytes.get(first..).unwrap_or_default().as_chunks().0
}

/// Where page-locked memory may be: two ranges, first address and length.
#[derive(Debug, Clone, Copy, Default)]
pub struct Suspects {
    pub host: (u64, u64),
    pub registered: (u64, u64),
}

impl Suspects {
    /// Whether an address is in there.
    #[inline]
    pub fn have(self, p: u64) -> bool {
        let within = |(first, len): (u64, u64)| p.wrapping_sub(first) < len;
        within(self.host) | within(self.registered)
    }

    /// Whether one of these words may be such an address. Nearly always none is, so each is looked
    /// at as little as can be: whether it lies between the first of all and the last.
    #[inline]
    pub fn have_any(self, words: &[[u8; 8]]) -> bool {
        let ends = [self.host, self.registered].map(|(first, len)| (first, first + len));
        let real = ends.into_iter().filter(|(first, end)| first < end);
        let hull = real.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let (first, end) = hull.unwrap_or_default();
        let len = end - first;
        let mut found = false;
        for w in words {
            found |= u64::from_le_bytes(*w).wrapping_sub(first) < len;
        }
        found
    }

    /// Those of the words that may be such addresses.
    pub fn among(self, words: &[[u8; 8]]) -> impl Iterator<Item = u64> {
        let parts = words.chunks(128).filter(move |part| self.have_any(part));
        let each = parts.flatten().map(|w| u64::from_le_bytes(*w));
        each.filter(move |w| self.have(*w))
    }
}
