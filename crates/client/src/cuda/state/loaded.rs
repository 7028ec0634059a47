//! Code that was loaded: modules, libraries, links in progress.

use std::collections::HashMap;
use std::ffi::CString;

/// A key of [`Options`].
pub const WALL_TIME: u32 = 2;
/// A key of [`Options`].
pub const INFO_LOG: u32 = 3;
/// A key of [`Options`].
pub const INFO_LOG_SIZE: u32 = 4;
/// A key of [`Options`].
pub const ERROR_LOG: u32 = 5;
/// A key of [`Options`].
pub const ERROR_LOG_SIZE: u32 = 6;

/// Options whose value is a pointer to a list.
const SYMBOLS: [u32; 3] = [17, 18, 19];

/// Options of the compiler, as the program gave them.
#[derive(Debug, Default)]
pub struct Options {
    /// Keys and values.
    pub list: Vec<(u32, u64)>,
    /// Where the program has its array of values.
    pub values: usize,
}

impl Options {
    /// The value of a key.
    pub fn get(&self, key: u32) -> Option<u64> {
        self.list.iter().find(|o| o.0 == key).map(|o| o.1)
    }

    /// What the worker must know: numbers, and how long the logs may be. Empty when there is
    /// nothing.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let here = [WALL_TIME, INFO_LOG, ERROR_LOG];
        for (k, v) in &self.list {
            if !here.contains(k) && !SYMBOLS.contains(k) {
                out.extend_from_slice(&k.to_le_bytes());
                out.extend_from_slice(&(*v as u32).to_le_bytes());
            }
        }
        out
    }
}

/// Parameters and attributes of a function, as the worker tells of them.
pub type Described = (Vec<u32>, Vec<u32>);

/// What the client knows of a module.
#[derive(Debug, Default)]
pub struct Module {
    /// Ids of functions that were asked for.
    pub functions: HashMap<CString, u32>,
    /// Parameters and attributes of functions that the worker has told of, by name.
    pub told: HashMap<CString, Described>,
    /// Addresses and sizes of variables that were.
    pub globals: HashMap<CString, (u64, u64)>,
}

/// What the client knows of a library.
#[derive(Debug, Default)]
pub struct Library {
    /// Ids of kernels that were asked for.
    pub kernels: HashMap<CString, u32>,
    /// Addresses and sizes of variables that were, by name and context.
    pub globals: HashMap<(CString, u32), (u64, u64)>,
}

/// A link in progress.
#[derive(Debug)]
pub struct Link {
    /// Where its logs go.
    pub options: Options,
    /// The result, which the program may read until the link is destroyed.
    pub image: Vec<u8>,
}
