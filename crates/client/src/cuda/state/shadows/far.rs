//! The device's side of shadowed memory, as the client reaches it.

use super::Suspects;
use crate::cuda::state::area::Beside;
use crate::cuda::state::prelude::*;
use busbar_wire::atomics::Atomic;
use busbar_wire::record::Heard;

/// The device's side of shadowed memory.
pub trait Far {
    /// Sends bytes for device memory, ahead of the queue.
    fn push(&self, context: u32, dst: u64, bytes: &[u8]) -> Result<()>;
    /// The same of what the program has changed among other bytes. Says how many times something
    /// was sent.
    fn push_parts(&self, context: u32, changed: &Beside) -> Result<u64>;
    /// Has an atomic operation done on device memory, behind what was pushed: what the word was.
    fn atomic(&self, context: u32, atomic: &Atomic) -> Result<u64>;
    /// From now on bytes come and go although work waits for the program.
    fn apart(&self) -> Result<()>;
    /// What is queued from now on finds what was pushed.
    fn fence(&self) -> Result<()>;
    /// Reads device memory, ahead of the queue. Where `to` has an older state of it, only blocks
    /// that have changed come. Says how many bytes came.
    fn read(&self, context: u32, src: u64, to: &mut [u8], older: bool) -> Result<u64>;
    /// What of words that are sent may be an address of page-locked memory.
    fn suspects(&self) -> Suspects;
    /// Has the worker tell what devices change of `len` bytes at `src` from now on; `to` gets those
    /// of now, if they are wanted.
    fn open(&self, src: u64, len: usize, host: (u64, Heard), to: Option<&mut [u8]>) -> Result<()>;
    /// Has the worker tell what devices have changed, of `all` or of what is watched: it has come
    /// when this returns. Whether there is more.
    fn look(&self, all: bool) -> Result<bool>;
}
