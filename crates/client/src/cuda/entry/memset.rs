//! Fills. What CUDA refuses at once is checked here; the rest is queued.

use super::prelude::*;
use crate::cuda::engine::ends::Filled;
use crate::cuda::engine::{addresses, ends, peer};
use crate::cuda::life::{enter_in_functions, guard};

/// Queues a fill where its memory is.
fn fill(
    raw: CUstream,
    per_thread: bool,
    dst: u64,
    check: impl Fn(Cx) -> Result<Filled>,
    send: impl Fn(Cx, bool, u32, u64) -> Result<()>,
) -> Result<()> {
    let mut cx = enter_in_functions()?;
    if raw.is_null() {
        cx = cx.of_address(dst);
    }
    let stream = cx.stream(raw, per_thread)?;
    let cx = cx.at_stream(stream);
    cx.need_context()?;
    let there = match check(cx)? {
        Filled::Nothing => return Ok(()),
        Filled::Unknown => {
            send(cx, false, stream, addresses::of_unknown(cx, dst))?;
            return cx.has_begun(stream);
        }
        Filled::Known => addresses::on_device(cx, dst, "a fill")?,
    };
    peer::in_stream(cx, stream, peer::must_reach(cx, dst))?;
    send(cx, true, stream, there)?;
    // Without a stream named, a fill of the host's memory is over when the call returns.
    if raw.is_null() && cx.state().ranges.is_pinned(dst, 1) {
        cx.synchronize(stream)?;
    }
    cx.has_begun(stream)
}

macro_rules! line {
    ($name:ident, $message:ident, $value:ident: $t:ty) => {
        pub unsafe fn $name(
            dst: CUdeviceptr,
            $value: $t,
            n: usize,
            stream: CUstream,
            per_thread: bool,
        ) -> CUresult {
            let checked = |cx| ends::fill(cx, dst, 0, size_of::<$t>(), n, 1);
            let send = |cx: Cx, usual, h_stream, dst_device| {
                let fill = msg::$message {
                    dst_device,
                    $value,
                    n: n as u64,
                    h_stream,
                };
                // Memory that is filled is in no doubt.
                cx.send_if(usual, &fill, Touch::At(&[]))
            };
            guard(|| fill(stream, per_thread, dst, checked, send))
        }
    };
}

macro_rules! rows {
    ($name:ident, $message:ident, $value:ident: $t:ty) => {
        pub unsafe fn $name(
            dst: CUdeviceptr,
            pitch: usize,
            $value: $t,
            width: usize,
            height: usize,
            stream: CUstream,
            per_thread: bool,
        ) -> CUresult {
            let checked = |cx| ends::fill(cx, dst, pitch, size_of::<$t>(), width, height);
            let send = |cx: Cx, usual, h_stream, dst_device| {
                let fill = msg::$message {
                    dst_device,
                    dst_pitch: pitch as u64,
                    $value,
                    width: width as u64,
                    height: height as u64,
                    h_stream,
                };
                // Memory that is filled is in no doubt.
                cx.send_if(usual, &fill, Touch::At(&[]))
            };
            guard(|| fill(stream, per_thread, dst, checked, send))
        }
    };
}

line!(cuMemsetD8Async, CuMemsetD8Async, uc: u8);
line!(cuMemsetD16Async, CuMemsetD16Async, us: u16);
line!(cuMemsetD32Async, CuMemsetD32Async, ui: u32);
rows!(cuMemsetD2D8Async, CuMemsetD2D8Async, uc: u8);
rows!(cuMemsetD2D16Async, CuMemsetD2D16Async, us: u16);
rows!(cuMemsetD2D32Async, CuMemsetD2D32Async, ui: u32);
