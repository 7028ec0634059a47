//! Green contexts.

use super::{Cuda, attempt, check};
use busbar_abi::cuda::*;
use busbar_wire::WireError;
use busbar_wire::codec::Message;
use busbar_wire::generated::cuda::{self as msg, Kind};
use busbar_wire::record::Header;

/// More groups than any device has processors.
const MOST: u32 = 1024;

pub(super) fn split_processors(
    w: &mut Cuda,
    h: &Header,
    m: msg::SplitProcessors<'_>,
) -> Result<(), WireError> {
    let input: CUdevResource =
        busbar_abi::from_bytes(m.input).ok_or(WireError::BadValue("structure"))?;
    let mut groups = m.most.min(MOST);
    let mut result: Vec<CUdevResource> = Vec::new();
    let mut remaining: CUdevResource = busbar_abi::zeroed();
    let rc = attempt(|| {
        let out = if m.count_only != 0 {
            std::ptr::null_mut()
        } else {
            result.resize(groups as usize, busbar_abi::zeroed());
            result.as_mut_ptr()
        };
        // SAFETY: pointers to live values; the list has room for as many groups as asked for.
        check(unsafe {
            w.driver.cuDevSmResourceSplitByCount(
                out,
                &mut groups,
                &input,
                &mut remaining,
                m.flags,
                m.least,
            )
        })
    });
    result.truncate(groups as usize);
    let reply = msg::SplitProcessorsReply {
        groups,
        result: busbar_abi::slice_bytes(&result),
        remaining: busbar_abi::bytes_of(&remaining),
    };
    w.reply(h, rc, |wr| reply.encode(wr));
    Ok(())
}

pub(super) fn context_of_green(
    w: &mut Cuda,
    h: &Header,
    m: msg::ContextOfGreen,
) -> Result<(), WireError> {
    let rc = attempt(|| {
        let green = w.handle(Kind::GreenContext, m.green)? as CUgreenCtx;
        let mut ctx: CUcontext = std::ptr::null_mut();
        // SAFETY: a live green context and a pointer to a live handle.
        check(unsafe { w.driver.cuCtxFromGreenCtx(&mut ctx, green) })?;
        w.made(h, &m, ctx as u64);
        Ok(())
    });
    w.reply(h, rc, |_| {});
    Ok(())
}

pub(super) fn green_of_stream(
    w: &mut Cuda,
    h: &Header,
    m: msg::GreenOfStream,
) -> Result<(), WireError> {
    let mut green = 0;
    let rc = attempt(|| {
        let stream = w.stream(m.stream)? as CUstream;
        let mut raw: CUgreenCtx = std::ptr::null_mut();
        // SAFETY: a live stream and a pointer to a live handle.
        check(unsafe { w.driver.cuStreamGetGreenCtx(stream, &mut raw) })?;
        if !raw.is_null() {
            green = w.adopt(Kind::GreenContext, raw as u64, &[]);
        }
        Ok(())
    });
    w.reply(h, rc, |wr| msg::GreenOfStreamReply { green }.encode(wr));
    Ok(())
}
