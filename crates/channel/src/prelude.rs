//! What every part of a channel uses.

pub(super) use busbar_transport::lock::lock;
pub(super) use busbar_transport::{Connection, Kept};
pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
pub(super) use std::sync::{Arc, Mutex, OnceLock};
pub(super) use std::time::{Duration, Instant};
