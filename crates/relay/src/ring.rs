//! The bytes of one direction of one connection: a ring with one writing and one reading thread.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Shared {
    bytes: Box<[UnsafeCell<u8>]>,
    /// Bytes ever put in and taken out; each is stored by one side only.
    filled: AtomicUsize,
    drained: AtomicUsize,
}

// SAFETY: the producer touches only the bytes between `filled` and `drained + capacity`, the
// consumer only those between `drained` and `filled`. The two ranges never overlap, and a side
// gives bytes to the other with a release store that the other reads with acquire.
unsafe impl Sync for Shared {}
// SAFETY: as above; the bytes themselves have no owner thread.
unsafe impl Send for Shared {}

/// The side that puts bytes in.
pub struct Producer(Arc<Shared>);

/// The side that takes bytes out.
pub struct Consumer(Arc<Shared>);

/// A ring of the given capacity in bytes.
pub fn ring(capacity: usize) -> (Producer, Consumer) {
    // Zeroed by the allocator, so pages are only taken once they are used.
    let zeroed = Box::into_raw(vec![0u8; capacity].into_boxed_slice());
    // SAFETY: UnsafeCell<u8> is laid out as u8, and the box is ours.
    let bytes = unsafe { Box::from_raw(zeroed as *mut [UnsafeCell<u8>]) };
    let shared = Arc::new(Shared {
        bytes,
        filled: AtomicUsize::new(0),
        drained: AtomicUsize::new(0),
    });
    (Producer(shared.clone()), Consumer(shared))
}

impl Producer {
    /// Bytes that can be put in now.
    pub fn free(&self) -> usize {
        let used = self.0.filled.load(Ordering::Relaxed) - self.0.drained.load(Ordering::Acquire);
        self.0.bytes.len() - used
    }

    /// The next free bytes that lie together; empty when the ring is full.
    pub fn space(&mut self) -> &mut [u8] {
        let at = self.0.filled.load(Ordering::Relaxed) % self.0.bytes.len();
        let len = self.free().min(self.0.bytes.len() - at);
        let start = self.0.bytes[at..].as_ptr().cast_mut().cast::<u8>();
        // SAFETY: these `len` bytes are free, so the consumer does not touch them until `put`;
        // `&mut self` keeps them ours alone, and UnsafeCell<u8> is laid out as u8.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }

    /// Gives the first `len` bytes of `space` to the consumer.
    pub fn put(&mut self, len: usize) {
        assert!(len <= self.free());
        self.0.filled.fetch_add(len, Ordering::Release);
    }
}

impl Consumer {
    /// Up to `want` of the oldest bytes, as far as they lie together.
    pub fn front(&self, want: usize) -> &[u8] {
        let drained = self.0.drained.load(Ordering::Relaxed);
        let used = self.0.filled.load(Ordering::Acquire) - drained;
        let at = drained % self.0.bytes.len();
        let len = want.min(used).min(self.0.bytes.len() - at);
        let start = self.0.bytes[at..].as_ptr().cast::<u8>();
        // SAFETY: these bytes are filled, so the producer does not touch them until `take`, which
        // needs `&mut self` and so cannot happen while the slice lives.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// Bytes the producer can put in now.
    pub fn free(&self) -> usize {
        let used = self.0.filled.load(Ordering::Acquire) - self.0.drained.load(Ordering::Relaxed);
        self.0.bytes.len() - used
    }

    /// Gives the first `len` bytes back to the producer.
    pub fn take(&mut self, len: usize) {
        assert!(len <= self.0.bytes.len() - self.free());
        self.0.drained.fetch_add(len, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_in_order_across_threads() {
        let (mut producer, mut consumer) = ring(1000);
        let total = 300_000usize;
        let writer = std::thread::spawn(move || {
            let mut sent = 0;
            while sent < total {
                let space = producer.space();
                let len = space.len().min(77).min(total - sent);
                for (i, byte) in space[..len].iter_mut().enumerate() {
                    *byte = ((sent + i) % 251) as u8;
                }
                producer.put(len);
                sent += len;
                std::thread::yield_now();
            }
        });
        let mut got = 0;
        while got < total {
            let front = consumer.front(91);
            for (i, &byte) in front.iter().enumerate() {
                assert_eq!(byte, ((got + i) % 251) as u8);
            }
            let len = front.len();
            consumer.take(len);
            got += len;
            std::thread::yield_now();
        }
        writer.join().unwrap();
        assert!(consumer.front(1).is_empty());
    }

    #[test]
    fn a_full_ring_has_no_space() {
        let (mut producer, mut consumer) = ring(8);
        assert_eq!(producer.space().len(), 8);
        producer.put(8);
        assert!(producer.space().is_empty());
        consumer.take(3);
        assert_eq!(producer.free(), 3);
        assert_eq!(consumer.front(100).len(), 5);
    }
}
