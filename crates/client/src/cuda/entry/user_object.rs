//! User objects: what a program ties to the life of a graph. The worker counts the references, and
//! has the destructor run here once the last is gone.

use crate::cuda::call::put;
use crate::cuda::engine::callback;
use crate::cuda::life::{enter, guard};
use crate::cuda::state::promised::Function;
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::ffi::c_void;

const NO_DESTRUCTOR_SYNC: u32 = 1;

pub unsafe fn cuUserObjectCreate(
    out: *mut CUuserObject,
    data: *mut c_void,
    destroy: CUhostFn,
    count: u32,
    flags: u32,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let Some(f) = destroy else {
            return Err(CUDA_ERROR_INVALID_VALUE);
        };
        if out.is_null() || count == 0 || count > i32::MAX as u32 || flags != NO_DESTRUCTOR_SYNC {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let object = cx.create(Kind::UserObject);
        let data = data as u64;
        let token = callback::destructor(cx, object, Function { f, data })?;
        cx.send(&msg::UserObjectCreate {
            object,
            token,
            count,
        })
        .inspect_err(|_| cx.destroy(Kind::UserObject, object))?;
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, cx.raw(Kind::UserObject, object) as CUuserObject) }
    })
}
