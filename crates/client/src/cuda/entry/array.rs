//! Arrays: their end.

use crate::cuda::call::Cx;
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};

pub fn cuArrayDestroy(cx: Cx, id: u32) -> Result<(), CUresult> {
    cx.send(&msg::CuArrayDestroy { h_array: id })?;
    cx.destroy(Kind::Array, id);
    Ok(())
}
