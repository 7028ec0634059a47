//! Arrays: their end.

use crate::cuda::life::{enter, guard};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};

pub unsafe fn cuArrayDestroy(array: CUarray) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let id = cx.handle(Kind::Array, array as u64)?;
        cx.send(&msg::CuArrayDestroy { h_array: id })?;
        cx.destroy(Kind::Array, id);
        Ok(())
    })
}
