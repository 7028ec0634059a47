//! Memory and events that processes of one server share.

use super::prelude::*;
use crate::cuda::call::freed;
use crate::cuda::engine::ipc;
use crate::cuda::engine::ipc::Handle;
use crate::cuda::state::ranges::Sort;

fn chars(b: [u8; 64]) -> [c_char; 64] {
    b.map(|b| b as c_char)
}

fn bytes(c: &[c_char; 64]) -> [u8; 64] {
    c.map(|c| c as u8)
}

pub fn cuIpcGetMemHandle(cx: Cx, p: CUdeviceptr) -> Result<CUipcMemHandle> {
    // Memory that came from elsewhere cannot be passed on, as with CUDA's own.
    let r = cx
        .state()
        .ranges
        .find(p)
        .filter(|r| r.sort == Sort::Device)
        .ok_or(CUDA_ERROR_INVALID_VALUE)?;
    cx.state().order.others_will_see();
    let e = cx.reply_to(&msg::IpcExport { va: r.base })?;
    let _ = cx.state().exporter.set(e.tag);
    let h = Handle {
        tag: e.tag,
        secret: e.secret,
        mapped: e.size,
        offset: r.base - e.base,
        size: r.size,
    };
    let reserved = chars(h.bytes());
    Ok(CUipcMemHandle { reserved })
}

pub fn cuIpcOpenMemHandle_v2(cx: Cx, handle: CUipcMemHandle, flags: u32) -> Result<CUdeviceptr> {
    const LAZY_ENABLE_PEER_ACCESS: u32 = 1;
    let h = Handle::parse(&bytes(&handle.reserved));
    // The process that has made it has the memory already.
    let own = h.is_some_and(|h| cx.state().exporter.get() == Some(&h.tag));
    refuse_if(own, CUDA_ERROR_INVALID_CONTEXT)?;
    if flags & !LAZY_ENABLE_PEER_ACCESS != 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let h = h.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let imports = &cx.state().imports;
    if imports.with(&h.secret, |_| ()).is_none() {
        ipc::import(cx, &h)?;
    }
    let opened = imports.with(&h.secret, |i| {
        let p = i.at + h.offset;
        let times = i.open.entry(p).or_insert(0);
        *times += 1;
        if *times == 1 {
            let of = (i.context, i.device);
            cx.state().ranges.add(p, h.size, Sort::Imported, of, 0);
        }
        p
    });
    opened.ok_or(CUDA_ERROR_INVALID_VALUE)
}

pub fn cuIpcCloseMemHandle(cx: Cx, p: CUdeviceptr) -> Result<()> {
    let mut all = cx.state().imports.all();
    let (secret, i) = all
        .iter_mut()
        .find(|(_, i)| i.open.contains_key(&p))
        .ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let secret = *secret;
    if let Some(times) = i.open.get_mut(&p) {
        *times -= 1;
        if *times > 0 {
            return Ok(());
        }
    }
    i.open.remove(&p);
    cx.state().ranges.remove(p, |s| s == Sort::Imported);
    if !i.open.is_empty() {
        return Ok(());
    }
    let Some(i) = all.remove(&secret) else {
        return Ok(());
    };
    let cx = cx.in_context(i.context);
    match cx.state().spaces.unplace(i.device as u32, i.at, i.mapped) {
        Some((va, size)) => freed::unmap(cx, va, size),
        None => Ok(()),
    }
}

pub fn cuIpcGetEventHandle(cx: Cx, event: u32) -> Result<CUipcEventHandle> {
    let reply = cx.call(&msg::IpcEventExport { event })?;
    let e = decode::<msg::IpcEventExportReply<'_>>(&reply)?;
    let b: [u8; 64] = e.handle.try_into().map_err(|_| CUDA_ERROR_UNKNOWN)?;
    cx.state().events.goes_abroad(event);
    let reserved = chars(b);
    Ok(CUipcEventHandle { reserved })
}

pub fn cuIpcOpenEventHandle(cx: Cx, handle: CUipcEventHandle) -> Result<u32> {
    let event = cx.create(Kind::Event);
    let opened = cx.call(&msg::IpcEventImport {
        event,
        handle: &bytes(&handle.reserved),
    });
    if let Err(e) = opened {
        cx.destroy(Kind::Event, event);
        return Err(e);
    }
    cx.state().events.goes_abroad(event);
    Ok(event)
}
