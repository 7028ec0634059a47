//! The undocumented tables of `cuGetExportTable`: functions that NVIDIA's own libraries call past
//! the public API. Which slots are used, and what they do, was observed; the others refuse.
//!
//! Slot 0 of a table is its size in bytes, except in the context storage.

use super::prelude::*;
use crate::cuda::call::thread;
use crate::cuda::engine::{activity, compiled, context, handshake, load};
use crate::cuda::generated::tables as made;
use crate::cuda::life::{enter, guard};
use crate::cuda::state::storage::{Destructor, Stored};

/// A table's entry: a function, or a number.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Slot(*const ());

// SAFETY: a slot is the address of a function, or a number; neither is ever written.
unsafe impl Sync for Slot {}

type Uuid = [u8; 16];

unsafe extern "C" fn refuse() -> CUresult {
    crate::log!(
        Debug,
        "a slot of an undocumented table that nobody was seen to use was called"
    );
    CUDA_ERROR_NOT_SUPPORTED
}

unsafe extern "C" fn succeed() -> CUresult {
    CUDA_SUCCESS
}

/// A table of `N` slots with its size in front.
const fn table<const N: usize>(used: &[(usize, *const ())]) -> [Slot; N] {
    let mut t = [Slot(refuse as *const ()); N];
    t[0] = Slot(std::ptr::without_provenance(N * size_of::<usize>()));
    let mut i = 0;
    while i < used.len() {
        t[used[i].0] = Slot(used[i].1);
        i += 1;
    }
    t
}

const RUNTIME: Uuid = *b"\x6b\xd5\xfb\x6c\x5b\xf4\xe7\x4a\x89\x87\xd9\x39\x12\xfd\x9d\xf9";
const HOOKS: Uuid = *b"\xa0\x94\x79\x8c\x2e\x74\x2e\x74\x93\xf2\x08\x00\x20\x0c\x0a\x66";
const CURRENT: Uuid = *b"\x42\xd8\x5a\x81\x23\xf6\xcb\x47\x82\x98\xf6\xe7\x8a\x3a\xec\xdc";
const STORAGE: Uuid = *b"\xc6\x93\x33\x6e\x11\x21\xdf\x11\xa8\xc3\x68\xf3\x55\xd8\x95\x93";
const UNNAMED_13: Uuid = *b"\x26\x3e\x88\x60\x7c\xd2\x61\x43\x92\xf6\xbb\xd5\x00\x6d\xfa\x7e";
const HANDSHAKE: Uuid = *b"\xd4\x08\x20\x55\xbd\xe6\x70\x4b\x8d\x34\xba\x12\x3c\x66\xe1\xf2";
const CONTEXTS: Uuid = *b"\x21\x31\x8c\x60\x97\x14\x32\x48\x8c\xa6\x41\xff\x73\x24\xc8\xf2";
const LAYOUT: Uuid = *b"\x17\x34\xdc\x26\x80\x0d\x47\x45\x87\x26\xc0\xf1\xe7\xdd\x8b\xca";
const MODULES: Uuid = *b"\x6e\x16\x3f\xbe\xb9\x58\x44\x4d\x83\x5c\xe1\x82\xaf\xf1\x99\x1e";
const COMPILED: Uuid = *b"\xda\x91\x51\xd3\x3a\xe6\xcc\x41\xa5\xc0\x4f\x26\xd5\x33\xe3\x28";

/// The tables, each where it stays: the handshake tells their addresses.
struct Tables {
    runtime: [Slot; 13],
    hooks: [Slot; 7],
    current: [Slot; 4],
    storage: [Slot; 4],
    unnamed_13: [Slot; 15],
    handshake: [Slot; 3],
    contexts: [Slot; 95],
    layout: [Slot; 17],
    modules: [Slot; 99],
    compiled: [Slot; 7],
    /// Memory that the runtime's hooks for tools use as they like.
    scratch: [AtomicU64; 8],
}

static TABLES: Tables = Tables {
    runtime: table(&[
        (1, made::module_from_fatbin as *const ()),
        (2, made::primary_context as *const ()),
        (6, made::module_from_fatbin_6 as *const ()),
        (7, succeed as *const ()),
        (8, made::module_from_fatbin_8 as *const ()),
        (12, succeed as *const ()),
    ]),
    hooks: table(&[
        (1, hooks_1 as *const ()),
        (2, hooks_2 as *const ()),
        (4, succeed as *const ()),
        (6, hooks_6 as *const ()),
    ]),
    current: table(&[(2, made::current_context as *const ())]),
    storage: [
        Slot(made::storage_put as *const ()),
        Slot(made::storage_delete as *const ()),
        Slot(made::storage_get as *const ()),
        Slot(refuse as *const ()),
    ],
    unnamed_13: table(&[(2, unnamed_2 as *const ()), (3, succeed as *const ())]),
    handshake: table(&[(1, made::handshake_1 as *const ())]),
    contexts: table(&[
        (4, made::context_number as *const ()),
        (39, made::stream_number as *const ()),
        (51, made::stream_inside as *const ()),
    ]),
    layout: table(&[
        (4, made::layout_get as *const ()),
        (13, layout_free as *const ()),
    ]),
    modules: table(&[(7, module_functions as *const ())]),
    compiled: table(&[
        (1, compiled_open as *const ()),
        (2, compiled_close as *const ()),
        (3, compiled_find as *const ()),
        (4, compiled_keep as *const ()),
        (6, compiled_free as *const ()),
    ]),
    scratch: [const { AtomicU64::new(0) }; 8],
};

pub unsafe fn cuGetExportTable(out: *mut *const c_void, id: *const CUuuid) -> CUresult {
    guard(|| {
        refuse_if(out.is_null() || id.is_null(), CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: the program's pointer to a UUID of 16 bytes.
        let uuid: Uuid = unsafe { id.cast::<Uuid>().read() };
        if uuid == busbar_abi::cupti::UUID {
            // SAFETY: as below.
            return unsafe { put(out, super::cupti::find as *const c_void) };
        }
        if uuid == crate::guest::UUID {
            // SAFETY: checked for null above; the program's pointer.
            return unsafe { put(out, (&raw const super::guest::TABLE).cast()) };
        }
        let found: Option<&[Slot]> = match uuid {
            RUNTIME => Some(&TABLES.runtime),
            HOOKS => Some(&TABLES.hooks),
            CURRENT => Some(&TABLES.current),
            STORAGE => Some(&TABLES.storage),
            UNNAMED_13 => Some(&TABLES.unnamed_13),
            HANDSHAKE => Some(&TABLES.handshake),
            CONTEXTS => Some(&TABLES.contexts),
            LAYOUT => Some(&TABLES.layout),
            MODULES => Some(&TABLES.modules),
            COMPILED => Some(&TABLES.compiled),
            _ => None,
        };
        let Some(t) = found else {
            crate::log!(Debug, "no table {uuid:02x?}");
            // SAFETY: checked for null above; the program's pointer.
            unsafe { put(out, std::ptr::null()) }?;
            return Err(CUDA_ERROR_NOT_FOUND);
        };
        // SAFETY: as above.
        unsafe { put(out, t.as_ptr().cast()) }
    })
}

pub fn primary_context(cx: Cx, dev: CUdevice) -> Result<CUcontext> {
    Ok(cx.raw(Kind::Context, context::primary_id(cx, dev)?) as CUcontext)
}

/// What the runtime says of a call of its own: see [`hooks_1`].
#[repr(C)]
struct RuntimeCall {
    size: usize,
    unknown: [u64; 4],
    result: *const i32,
    name: *const c_char,
    params: *const c_void,
    context: CUcontext,
    stream: u64,
    number: u32,
    /// 0 where it begins, 1 where it ends.
    site: u32,
    others: [u64; 4],
}

/// The runtime begins or ends a function of its own.
unsafe extern "C" fn hooks_1(_number: u32, call: *const RuntimeCall) -> CUresult {
    // SAFETY: null, or the runtime's structure, which lives through this.
    if let Some(c) = unsafe { call.as_ref() }.filter(|c| c.size == size_of::<RuntimeCall>()) {
        return guard(|| {
            match c.site {
                0 => activity::runtime_begins(c.number, c.params),
                _ => {
                    // SAFETY: as above; what it returns is there when it ends.
                    let result = unsafe { c.result.as_ref() }.copied().unwrap_or(0);
                    activity::runtime_ends(c.number, c.params, result);
                }
            }
            Ok(())
        });
    }
    CUDA_SUCCESS
}

unsafe extern "C" fn hooks_2(out: *mut *const c_void, size: *mut usize) {
    let (words, n) = activity::runtime_words();
    // SAFETY: the caller's pointers.
    unsafe {
        put_opt(out, words.cast());
        put_opt(size, n);
    }
}

unsafe extern "C" fn hooks_6(out: *mut *mut c_void, size: *mut usize) {
    // SAFETY: the caller's pointers.
    unsafe {
        put_opt(out, TABLES.scratch.as_ptr().cast_mut().cast());
        put_opt(size, 14);
    }
}

pub unsafe fn handshake_1(cx: Cx, version: u32, seconds: u64, out: *mut u64) -> Result<()> {
    refuse_if(out.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    let devices = handshake::devices(cx);
    let facts = handshake::Facts {
        driver: cx.client.driver_version as u32,
        pid: std::process::id(),
        // SAFETY: pthread_self has no preconditions.
        thread: unsafe { libc::pthread_self() } as u32,
        addresses: [
            TABLES.runtime.as_ptr() as u64,
            TABLES.handshake.as_ptr() as u64,
            TABLES.handshake[1].0 as u64,
        ],
        devices: &devices,
    };
    let [a, b] = handshake::answer(version, seconds, &facts);
    // SAFETY: room for two numbers, as the caller knows.
    unsafe {
        out.write_unaligned(a);
        out.add(1).write_unaligned(b);
    }
    Ok(())
}

pub fn context_number(cx: Cx, ctx: CUcontext) -> Result<u64> {
    let id = match ctx as u64 {
        0 => cx.scope,
        raw => cx.handle(Kind::Context, raw)?,
    };
    Ok(cx.state().contexts.info(id).map_or(0, |i| i.serial))
}

/// What stands for a stream inside the driver: here, its handle; the default streams have their
/// special values.
pub fn stream_inside(cx: Cx, _ctx: CUcontext, stream: CUstream, per_thread: i32) -> Result<u64> {
    cx.stream(stream, per_thread != 0)?;
    Ok(match stream as u64 {
        0 if per_thread != 0 => 2,
        0 => 1,
        raw => raw,
    })
}

/// A number that no other stream of the context has.
pub fn stream_number(_cx: Cx, _ctx: CUcontext, inside: u64) -> Result<u64> {
    Ok(inside)
}

unsafe extern "C" fn unnamed_2(
    _ctx: CUcontext,
    out: *mut u32,
    _rest: *mut *mut c_void,
) -> CUresult {
    // SAFETY: the caller's pointer.
    unsafe { put_opt(out, 0) };
    CUDA_SUCCESS
}

/// The bytes in memory of malloc's, which the caller gives back; null when there is none.
fn copied(bytes: &[u8]) -> *mut u8 {
    // SAFETY: malloc gives room for as many bytes as are copied, or null.
    unsafe {
        let p: *mut u8 = libc::malloc(bytes.len().max(1)).cast();
        if !p.is_null() {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), p, bytes.len());
        }
        p
    }
}

/// How the chip's processors are grouped. Two arrays that the caller gives back to `layout_free`.
pub fn layout_get(cx: Cx) -> Result<(*mut u8, *mut u8)> {
    let device = cx.current_device()?;
    let reply = cx.cached(&msg::ChipLayout { device })?;
    let r = decode::<msg::ChipLayoutReply<'_>>(&reply)?;
    crate::log!(
        Debug,
        "the chip's layout has {} entries",
        r.gpc_of_tpc.len()
    );
    Ok((copied(r.index_in_gpc), copied(r.gpc_of_tpc)))
}

unsafe extern "C" fn layout_free(a: *mut c_void, b: *mut c_void) -> CUresult {
    // SAFETY: both came from `layout_get`, which used malloc.
    unsafe {
        libc::free(a);
        libc::free(b);
    }
    CUDA_SUCCESS
}

/// Calls back with each function of a module; answers 1.
unsafe extern "C" fn module_functions(
    _ctx: CUcontext,
    module: CUmodule,
    callback: Option<unsafe extern "C" fn(*mut c_void, CUfunction) -> i32>,
    user: *mut c_void,
) -> i32 {
    let listed = || -> Result<()> {
        let f = callback.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let cx = enter()?;
        let module = cx.handle(Kind::Module, module as u64)?;
        for function in load::functions(cx, module)? {
            // SAFETY: the caller's function and data.
            unsafe { f(user, function) };
        }
        Ok(())
    };
    i32::from(guard(listed) == CUDA_SUCCESS)
}

fn storage_context(cx: Cx, ctx: CUcontext) -> Result<u32> {
    if ctx.is_null() {
        cx.need_context()
    } else {
        cx.handle(Kind::Context, ctx as u64)
    }
}

pub fn storage_put(
    cx: Cx,
    ctx: CUcontext,
    key: *mut c_void,
    value: *mut c_void,
    destructor: Option<Destructor>,
) -> Result<()> {
    let stored = Stored {
        value: value as u64,
        destructor,
    };
    let id = storage_context(cx, ctx)?;
    cx.state().storage.put(id, key as u64, stored);
    Ok(())
}

pub fn storage_delete(cx: Cx, ctx: CUcontext, key: *mut c_void) -> Result<()> {
    let id = storage_context(cx, ctx)?;
    let was = cx.state().storage.take(id, key as u64);
    was.map(drop).ok_or(CUDA_ERROR_INVALID_HANDLE)
}

pub fn storage_get(cx: Cx, ctx: CUcontext, key: *mut c_void) -> Result<*mut c_void> {
    let (id, key) = (storage_context(cx, ctx)?, key as u64);
    let storage = &cx.state().storage;
    let change = storage.change();
    let place = cx.in_context(id).context_key();
    if let Some(value) = thread::stored(change, place, key) {
        return Ok(value as *mut c_void);
    }
    let value = storage.get(id, key).ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    thread::keep_stored(change, place, key, value);
    Ok(value as *mut c_void)
}

/// Begins to ask for what a compiler may have made before, or to keep it: `kind` of result, made
/// from `source` with `options`, by the compiler that `host` and `version` describe, for `chip`.
unsafe extern "C" fn compiled_open(
    out: *mut *mut compiled::Origin,
    kind: u32,
    source: *const u8,
    len: usize,
    options: *const c_char,
    host: *const c_char,
    version: *const c_char,
    chip: u32,
) -> CUresult {
    guard(|| {
        refuse_if(out.is_null() || source.is_null(), CUDA_ERROR_INVALID_VALUE)?;
        let text = |p: *const c_char| match p.is_null() {
            true => &[][..],
            // SAFETY: the compiler's text, which ends with a zero.
            false => unsafe { CStr::from_ptr(p) }.to_bytes_with_nul(),
        };
        // SAFETY: the compiler says that `len` bytes lie there.
        let source = unsafe { std::slice::from_raw_parts(source, len) };
        let (kind, chip) = (kind.to_le_bytes(), chip.to_le_bytes());
        let texts = [text(options), text(host), text(version)];
        let parts = [&kind[..], source, texts[0], texts[1], texts[2], &chip];
        let origin = Box::new(compiled::Origin::of(&parts));
        // SAFETY: checked for null above; the caller's pointer.
        unsafe { put(out, Box::into_raw(origin)) }
    })
}

/// What `compiled_open` gave.
unsafe fn origin<'a>(raw: *const compiled::Origin) -> Result<&'a compiled::Origin> {
    // SAFETY: null, or what `compiled_open` gave and nobody has closed.
    unsafe { raw.as_ref() }.ok_or(CUDA_ERROR_INVALID_VALUE)
}

unsafe extern "C" fn compiled_close(raw: *mut compiled::Origin) -> CUresult {
    guard(|| {
        refuse_if(raw.is_null(), CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: a box's, from `compiled_open`; the caller does not use it again.
        drop(unsafe { Box::from_raw(raw) });
        Ok(())
    })
}

/// A result that was kept, for `compiled_free`, and its length.
unsafe extern "C" fn compiled_find(
    raw: *const compiled::Origin,
    part: u32,
    out: *mut *mut u8,
    len: *mut u32,
) -> CUresult {
    guard(|| {
        // SAFETY: as the callee asks.
        let origin = unsafe { origin(raw) }?.part(part);
        let folder = compiled::Folder::from_env().ok_or(CUDA_ERROR_NOT_FOUND)?;
        let found = folder.find(&origin).ok_or(CUDA_ERROR_NOT_FOUND)?;
        let length = u32::try_from(found.len()).map_err(|_| CUDA_ERROR_NOT_FOUND)?;
        refuse_if(out.is_null() || len.is_null(), CUDA_ERROR_INVALID_VALUE)?;
        let bytes = copied(&found);
        refuse_if(bytes.is_null(), CUDA_ERROR_OUT_OF_MEMORY)?;
        // SAFETY: checked for null above; the caller's pointers.
        unsafe {
            put(len, length)?;
            put(out, bytes)
        }
    })
}

unsafe extern "C" fn compiled_keep(
    raw: *const compiled::Origin,
    part: u32,
    bytes: *const u8,
    len: usize,
) -> CUresult {
    guard(|| {
        // SAFETY: as the callee asks.
        let origin = unsafe { origin(raw) }?.part(part);
        refuse_if(bytes.is_null(), CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: the compiler says that `len` bytes lie there.
        let bytes = unsafe { std::slice::from_raw_parts(bytes, len) };
        if let Some(folder) = compiled::Folder::from_env() {
            // A full disk costs time at the next compilation, and nothing else.
            let kept = folder.keep(&origin, bytes);
            let _ = kept.inspect_err(|e| crate::log!(Debug, "a result is not kept: {e}"));
        }
        Ok(())
    })
}

unsafe extern "C" fn compiled_free(bytes: *mut u8) -> CUresult {
    // SAFETY: it came from `compiled_find`, which used malloc.
    unsafe { libc::free(bytes.cast()) };
    CUDA_SUCCESS
}
