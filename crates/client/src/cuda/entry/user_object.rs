//! User objects: what a program ties to the life of a graph. The worker counts the references, and
//! has the destructor run here once the last is gone.

use super::prelude::*;
use crate::cuda::engine::callback;
use crate::cuda::state::promised::Function;

const NO_DESTRUCTOR_SYNC: u32 = 1;

pub unsafe fn cuUserObjectCreate(
    cx: Cx,
    data: *mut c_void,
    destroy: CUhostFn,
    count: u32,
    flags: u32,
) -> Result<u32> {
    let Some(f) = destroy else {
        return Err(CUDA_ERROR_INVALID_VALUE);
    };
    if count == 0 || count > i32::MAX as u32 || flags != NO_DESTRUCTOR_SYNC {
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
    Ok(object)
}
