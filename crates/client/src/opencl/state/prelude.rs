//! What every part of the state uses.

pub(super) use super::Result;
pub(super) use crate::lock::lock;
pub(super) use busbar_abi::opencl::*;
pub(super) use std::collections::HashMap;
pub(super) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
pub(super) use std::sync::{Arc, Mutex};
