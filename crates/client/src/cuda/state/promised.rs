//! What of the program's the server may ask for: functions, destructors, bytes. The server has a
//! token for each, never an address.

use super::order::Order;
use super::prelude::*;
use super::rows::HostBox;
use crate::tokens::Tokens;
use std::ffi::c_void;

/// A function of the program's and its argument.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    /// The function.
    pub f: unsafe extern "C" fn(*mut c_void),
    /// An address that only the program understands.
    pub data: u64,
}

/// What a token stands for.
#[derive(Debug, Clone, Copy)]
pub enum Promised {
    /// A function that a stream waits for.
    Function(Function),
    /// A stream's callback.
    Callback {
        /// The function.
        f: unsafe extern "C" fn(CUstream, CUresult, *mut c_void),
        /// The stream's handle, as the program gave it.
        stream: u64,
        /// An address that only the program understands.
        data: u64,
    },
    /// The destructor of a user object.
    Destructor {
        /// The object's id.
        object: u32,
        /// The destructor.
        run: Function,
    },
    /// Bytes of page-locked memory.
    Read(HostBox),
    /// What opens a gate that a stream has come to, by the gate's number.
    Gate(u64),
}

/// The tokens that a server has.
#[derive(Default)]
pub struct Promises(Mutex<Tokens<Promised>>);

impl Promises {
    /// A token that is good until it is taken back.
    pub fn often(&self, what: Promised) -> u64 {
        lock(&self.0).often(what)
    }

    /// A token that is good once: until then, what it stands for is due.
    pub fn once(&self, order: &Order, what: Promised) -> u64 {
        match what {
            Promised::Function(_) | Promised::Callback { .. } => order.function_due(),
            Promised::Read(b) => order.read_due(b.span()),
            Promised::Destructor { .. } | Promised::Gate(_) => {}
        }
        lock(&self.0).once(what)
    }

    /// What a living token stands for.
    pub fn get(&self, token: u64) -> Option<Promised> {
        lock(&self.0).get(token).copied()
    }

    /// Uses a token: what it stands for, and whether that was the only time.
    pub fn redeem(&self, token: u64) -> Result<(Promised, bool), String> {
        lock(&self.0).redeem(token)
    }

    /// Takes a token back: what it stood for.
    pub fn take(&self, order: &Order, token: u64) -> Result<Promised, String> {
        let (what, once) = lock(&self.0).take(token)?;
        if once {
            what.is_over(order);
        }
        Ok(what)
    }
}

impl Promised {
    /// It was asked for the only time and is done, or it will not be asked for.
    pub fn is_over(&self, order: &Order) {
        match self {
            Self::Function(_) | Self::Callback { .. } => order.function_ran(),
            Self::Read(b) => order.read_done(b.span()),
            Self::Destructor { .. } | Self::Gate(_) => {}
        }
    }
}
