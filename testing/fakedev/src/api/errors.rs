//! The functions that name errors.

use crate::entry::api;
use crate::ffi::*;
use crate::state::errors::name;
use std::ffi::c_char;

api! {
    fn [cuGetErrorName cuGetErrorString] (code: CUresult, out: *mut *const c_char) {
        // The text is the name: what a person reads here is a test's output.
        match name(code) {
            Ok(name) => put(out, name.as_ptr()),
            Err(error) => {
                put_opt(out, std::ptr::null());
                Err(error)
            }
        }
    }
}
