//! What nearly every part uses: locks and what they guard, clocks, collections.

pub use crate::lock::{lock, wait};
pub use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
pub use std::time::{Duration, Instant};
