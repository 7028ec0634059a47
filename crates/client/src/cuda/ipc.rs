//! Memory and events that processes of one server share.
//!
//! A memory handle names the worker that has the memory, and carries a secret of 128 bits: who
//! holds the handle may import, and nobody else. The importing worker gets the memory from the
//! exporting one, machine-locally, and maps it at an address chosen here.

use super::context;
use super::memory::{self, Sort};
use super::runtime::{Cx, decode, enter, guard, put};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::collections::HashMap;
use std::ffi::c_char;
use std::sync::{Mutex, MutexGuard, PoisonError};

const MAGIC: [u8; 8] = *b"busbar\0\x01";

/// What a memory handle says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Handle {
    tag: [u8; 8],
    secret: [u8; 16],
    /// Bytes of the whole mapping.
    mapped: u64,
    /// Where the allocation lies in it, and its length.
    offset: u64,
    size: u64,
}

impl Handle {
    fn bytes(&self) -> [u8; 64] {
        let mut b = [0; 64];
        b[..8].copy_from_slice(&MAGIC);
        b[8..16].copy_from_slice(&self.tag);
        b[16..32].copy_from_slice(&self.secret);
        for (i, n) in [self.mapped, self.offset, self.size].iter().enumerate() {
            b[32 + 8 * i..40 + 8 * i].copy_from_slice(&n.to_le_bytes());
        }
        b
    }

    fn parse(b: &[u8; 64]) -> Option<Self> {
        let number = |i: usize| {
            let mut n = [0; 8];
            n.copy_from_slice(&b[32 + 8 * i..40 + 8 * i]);
            u64::from_le_bytes(n)
        };
        let (mut tag, mut secret) = ([0; 8], [0; 16]);
        tag.copy_from_slice(&b[8..16]);
        secret.copy_from_slice(&b[16..32]);
        let h = Self {
            tag,
            secret,
            mapped: number(0),
            offset: number(1),
            size: number(2),
        };
        let fits = h.offset.checked_add(h.size)? <= h.mapped;
        let whole = h.mapped.is_multiple_of(super::space::GRANULE);
        (b[..8] == MAGIC && fits && whole && h.size > 0).then_some(h)
    }
}

/// A mapping that this process has imported.
struct Import {
    at: u64,
    device: CUdevice,
    mapped: u64,
    context: u32,
    /// How often each allocation in it is open, by address.
    open: HashMap<u64, u32>,
}

/// Imports by the exporter's secret.
static IMPORTS: Mutex<Option<HashMap<[u8; 16], Import>>> = Mutex::new(None);

fn imports() -> MutexGuard<'static, Option<HashMap<[u8; 16], Import>>> {
    IMPORTS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn chars(b: [u8; 64]) -> [c_char; 64] {
    b.map(|b| b as c_char)
}

fn bytes(c: &[c_char; 64]) -> [u8; 64] {
    c.map(|c| c as u8)
}

pub(super) unsafe fn cuIpcGetMemHandle(out: *mut CUipcMemHandle, p: CUdeviceptr) -> CUresult {
    guard(|| {
        let cx = enter()?;
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // Memory that came from elsewhere cannot be passed on, as with CUDA's own.
        let r = memory::find(p)
            .filter(|r| r.sort == Sort::Device)
            .ok_or(CUDA_ERROR_INVALID_VALUE)?;
        super::settled::others_will_see();
        let reply = cx.call(&msg::IpcExport { va: r.base })?;
        let e = decode::<msg::IpcExportReply>(&reply)?;
        let h = Handle {
            tag: e.tag,
            secret: e.secret,
            mapped: e.size,
            offset: r.base - e.base,
            size: r.size,
        };
        let reserved = chars(h.bytes());
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, CUipcMemHandle { reserved }) }
    })
}

/// Maps what a handle names, unless it is mapped already; gives the mapping's address.
fn import(cx: Cx, h: &Handle) -> Result<(), CUresult> {
    let context = cx.need_context()?;
    let device = context::current_device(cx)?;
    super::settled::others_will_see();
    // A whole mapping has granules of its own here, too, however small it is.
    let at = memory::place(device as u32, h.mapped, |va, size| {
        cx.call(&msg::IpcImport {
            va,
            size,
            device,
            tag: h.tag,
            secret: h.secret,
        })
        .map(drop)
    })?;
    let new = Import {
        at,
        device,
        mapped: h.mapped,
        context,
        open: HashMap::new(),
    };
    imports().get_or_insert_default().insert(h.secret, new);
    Ok(())
}

pub(super) unsafe fn cuIpcOpenMemHandle_v2(
    out: *mut CUdeviceptr,
    handle: CUipcMemHandle,
    flags: u32,
) -> CUresult {
    const LAZY_ENABLE_PEER_ACCESS: u32 = 1;
    guard(|| {
        let cx = enter()?;
        cx.need_context()?;
        if out.is_null() || flags & !LAZY_ENABLE_PEER_ACCESS != 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let h = Handle::parse(&bytes(&handle.reserved)).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let known = imports().get_or_insert_default().contains_key(&h.secret);
        if !known {
            import(cx, &h)?;
        }
        let mut all = imports();
        let i = all
            .get_or_insert_default()
            .get_mut(&h.secret)
            .ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let p = i.at + h.offset;
        let times = i.open.entry(p).or_insert(0);
        *times += 1;
        if *times == 1 {
            memory::add(p, h.size, Sort::Imported, i.context, i.device, 0);
        }
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, p as CUdeviceptr) }
    })
}

pub(super) unsafe fn cuIpcCloseMemHandle(p: CUdeviceptr) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let mut all = imports();
        let all = all.get_or_insert_default();
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
        memory::remove(p, |s| s == Sort::Imported);
        if !i.open.is_empty() {
            return Ok(());
        }
        let Some(i) = all.remove(&secret) else {
            return Ok(());
        };
        let cx = Cx {
            scope: i.context,
            ..cx
        };
        match memory::unplace(i.device as u32, i.at, i.mapped) {
            Some((va, size)) => super::retire::unmap(cx, va, size),
            None => Ok(()),
        }
    })
}

/// A context is gone, and what was imported into it.
pub fn forget_context(context: u32, mut each: impl FnMut(CUdevice, u64, u64)) {
    if let Some(all) = imports().as_mut() {
        all.retain(|_, i| {
            if i.context == context {
                each(i.device, i.at, i.mapped);
            }
            i.context != context
        });
    }
}

pub(super) unsafe fn cuIpcGetEventHandle(out: *mut CUipcEventHandle, event: CUevent) -> CUresult {
    guard(|| {
        let cx = enter()?;
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let event = cx.handle(Kind::Event, event as u64)?;
        let reply = cx.call(&msg::IpcEventExport { event })?;
        let e = decode::<msg::IpcEventExportReply<'_>>(&reply)?;
        let b: [u8; 64] = e.handle.try_into().map_err(|_| CUDA_ERROR_UNKNOWN)?;
        let reserved = chars(b);
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, CUipcEventHandle { reserved }) }
    })
}

pub(super) unsafe fn cuIpcOpenEventHandle(out: *mut CUevent, handle: CUipcEventHandle) -> CUresult {
    guard(|| {
        let cx = enter()?;
        cx.need_context()?;
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let event = cx.create(Kind::Event);
        let opened = cx.call(&msg::IpcEventImport {
            event,
            handle: &bytes(&handle.reserved),
        });
        if let Err(e) = opened {
            cx.destroy(Kind::Event, event);
            return Err(e);
        }
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, cx.raw(Kind::Event, event) as CUevent) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_says_what_was_put_in_and_a_made_up_one_nothing() {
        let h = Handle {
            tag: [1; 8],
            secret: [2; 16],
            mapped: 2 << 20,
            offset: 4096,
            size: 100,
        };
        assert_eq!(Handle::parse(&h.bytes()), Some(h));
        assert_eq!(Handle::parse(&[0; 64]), None);
        let beyond = Handle { size: 2 << 20, ..h };
        assert_eq!(Handle::parse(&beyond.bytes()), None);
        let wraps = Handle {
            offset: u64::MAX,
            ..h
        };
        assert_eq!(Handle::parse(&wraps.bytes()), None);
    }
}
