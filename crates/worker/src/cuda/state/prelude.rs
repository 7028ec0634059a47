//! What every part of the state uses.

pub(super) use crate::lock::lock;
pub(super) use busbar_abi::cuda::*;
pub(super) use std::collections::{BTreeMap, HashMap};
pub(super) use std::sync::{Arc, Mutex};
