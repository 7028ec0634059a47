//! Seeded random numbers, and the seeds that a test runs.

/// A small generator (splitmix64): what it gives depends on its seed alone, on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator with a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def1)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not zero.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next_u64() % n
    }

    /// A number below `n`, small ones as likely as large ones by their number of digits.
    pub fn magnitude(&mut self, n: u64) -> u64 {
        let bits = self.below(u64::from(64 - n.leading_zeros()) + 1);
        (self.next_u64() & ((1u64 << bits.min(63)) - 1)).min(n - 1)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Random bytes.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(n + 8);
        while out.len() < n {
            out.extend_from_slice(&self.next_u64().to_le_bytes());
        }
        out.truncate(n);
        out
    }
}

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Prints the seed when the test that runs it fails.
struct Witness(u64);

impl Drop for Witness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with BUSBAR_SEED={}", self.0);
        }
    }
}

/// Runs `test` with the seed of `BUSBAR_SEED`, or else with `BUSBAR_SEEDS` seeds (`count` unless
/// told otherwise).
pub fn seeds(count: u64, mut test: impl FnMut(u64)) {
    let mut run = |seed| {
        let _witness = Witness(seed);
        test(seed);
    };
    match number("BUSBAR_SEED") {
        Some(seed) => run(seed),
        None => (0..number("BUSBAR_SEEDS").unwrap_or(count)).for_each(run),
    }
}

/// How much a test that can go on for long is to do: `BUSBAR_FUZZ` times `base`.
pub fn effort(base: u64) -> u64 {
    base * number("BUSBAR_FUZZ").unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn a_seed_gives_the_same_numbers_each_time_and_others_than_its_neighbour() {
        let mut numbers: Vec<_> = (0..4).map(|s| Rng::new(s).next_u64()).collect();
        assert_eq!(numbers[2], Rng::new(2).next_u64());
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 4);
    }

    #[test]
    fn magnitudes_stay_below_their_limit() {
        let mut r = Rng::new(1);
        for n in [1, 2, 3, 100, 1 << 20] {
            assert!((0..1000).all(|_| r.magnitude(n) < n));
        }
    }
}
