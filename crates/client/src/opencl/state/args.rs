//! A kernel's arguments, which stay on the client until a launch.
#![forbid(unsafe_code)]

use super::Result;
use super::kernel::KernelInfo;
use busbar_abi::opencl::CL_INVALID_KERNEL_ARGS;
use busbar_wire::Writer;

/// An argument as it was set.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// It was not set.
    Unset,
    /// A plain value.
    Bytes(Vec<u8>),
    /// A memory object's id.
    Memory(u32),
    /// A sampler's id.
    Sampler(u32),
    /// A queue's id.
    Queue(u32),
    /// No value but a size: local memory, or a null object.
    Size(u64),
    /// A pointer to shared virtual memory.
    Svm(u64),
}

/// Arguments with a note on which ones the worker has not seen.
#[derive(Default)]
pub struct Args {
    values: Vec<(Value, bool)>,
    dirty: Vec<u32>,
    packed: Vec<u8>,
}

impl Args {
    /// `n` arguments, none of them set.
    pub fn new(n: u32) -> Self {
        Self {
            values: vec![(Value::Unset, false); n as usize],
            ..Self::default()
        }
    }

    /// As these are, and known to the worker.
    pub fn copy(&self) -> Self {
        Self {
            values: self.values.clone(),
            ..Self::default()
        }
    }

    /// Sets one.
    pub fn set(&mut self, i: u32, value: Value) {
        let slot = &mut self.values[i as usize];
        // An object's id may be a new object's by now, so only plain values are known to be the
        // same.
        if slot.0 == value && matches!(value, Value::Bytes(_) | Value::Size(_)) {
            return;
        }
        slot.0 = value;
        if !slot.1 {
            slot.1 = true;
            self.dirty.push(i);
        }
    }

    fn complete(&self) -> bool {
        !self.values.iter().any(|v| v.0 == Value::Unset)
    }

    /// As [`Args::ship`], of arguments that are all set.
    pub fn ship_all<T>(&mut self, f: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        match self.complete() {
            true => self.ship(f),
            false => Err(CL_INVALID_KERNEL_ARGS),
        }
    }

    /// Bytes of local memory that they ask for.
    pub fn local_bytes(&self, info: &KernelInfo) -> u64 {
        let local = |(i, v): (usize, &(Value, bool))| match v.0 {
            Value::Size(n) if info.is_local(i) => n,
            _ => 0,
        };
        self.values.iter().enumerate().map(local).sum()
    }

    /// Packs what the worker has not seen yet for `f`; once sent it counts as seen.
    pub fn ship<T>(&mut self, f: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        self.packed.clear();
        let mut w = Writer::new(&mut self.packed);
        for i in &self.dirty {
            let (tag, n) = match &self.values[*i as usize].0 {
                Value::Unset => continue,
                Value::Bytes(b) => {
                    w.u32(*i);
                    w.u8(0);
                    w.bytes(b);
                    continue;
                }
                Value::Memory(id) => (1, u64::from(*id)),
                Value::Sampler(id) => (2, u64::from(*id)),
                Value::Queue(id) => (3, u64::from(*id)),
                Value::Size(n) => (4, *n),
                Value::Svm(p) => (5, *p),
            };
            w.u32(*i);
            w.u8(tag);
            w.u64(n);
        }
        let done = f(&self.packed)?;
        for i in self.dirty.drain(..) {
            self.values[i as usize].1 = false;
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped(args: &mut Args) -> Vec<u8> {
        args.ship(|packed| Ok(packed.to_vec())).unwrap()
    }

    #[test]
    fn the_worker_hears_of_what_changed_since_it_last_heard() {
        let mut args = Args::new(2);
        assert_eq!(args.ship_all(|_| Ok(())), Err(CL_INVALID_KERNEL_ARGS));
        args.set(0, Value::Bytes(vec![7; 4]));
        args.set(1, Value::Memory(5));
        assert_eq!(
            args.ship_all(|p| Ok(p.len())),
            Ok(4 + 1 + 4 + 4 + 4 + 1 + 8)
        );
        assert!(shipped(&mut args).is_empty());
        // The same plain value says nothing new; the same id may be another object's.
        args.set(0, Value::Bytes(vec![7; 4]));
        args.set(1, Value::Memory(5));
        let mut wanted = vec![1, 0, 0, 0, 1];
        wanted.extend(5u64.to_le_bytes());
        assert_eq!(shipped(&mut args), wanted);
    }

    #[test]
    fn what_could_not_be_sent_is_sent_again() {
        let mut args = Args::new(1);
        args.set(0, Value::Size(64));
        assert_eq!(args.ship(|_| Err::<(), _>(-2)), Err(-2));
        assert_eq!(shipped(&mut args).len(), 13);
        let mut copy = args.copy();
        assert!(shipped(&mut copy).is_empty());
        assert_eq!(copy.ship_all(|_| Ok(())), Ok(()));
    }
}
