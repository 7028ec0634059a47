//! Binaries that a session has given out. A program that builds from source and then loads the
//! binary, as those do that keep their own caches, need not wait for the server a second time: what
//! the load and its build come to is known.

use super::kernel::KernelInfo;
use super::program::Build;
use std::collections::HashMap;
use std::sync::Arc;

/// The most binaries that are remembered.
const MOST_GIVEN: usize = 4096;

/// What became of a program: all that a build tells of it.
pub struct Outcome {
    /// What is known on each device.
    pub builds: Vec<(u32, Build)>,
    /// The kernels.
    pub kernels: Vec<Arc<KernelInfo>>,
    /// Their names, as the library lists them.
    pub names: String,
}

/// Binaries that a session has given out, by their hash.
#[derive(Default)]
pub struct Given(HashMap<blake3::Hash, Arc<Outcome>>);

impl Given {
    fn name(lengths: &[u64], binaries: &[u8]) -> blake3::Hash {
        let mut h = blake3::Hasher::new();
        for n in lengths {
            h.update(&n.to_le_bytes());
        }
        h.update(binaries).finalize()
    }

    /// Remembers binaries and the build that they came from.
    pub fn add(&mut self, lengths: &[u64], binaries: &[u8], outcome: Arc<Outcome>) {
        if self.0.len() >= MOST_GIVEN {
            self.0.clear();
        }
        self.0.insert(Self::name(lengths, binaries), outcome);
    }

    /// The build that these binaries came from, if this session gave them out.
    pub fn find(&self, lengths: &[u64], binaries: &[u8]) -> Option<Arc<Outcome>> {
        self.0.get(&Self::name(lengths, binaries)).cloned()
    }
}
