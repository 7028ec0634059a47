//! The undocumented tables of `cuGetExportTable`: functions that NVIDIA's own libraries call past
//! the public API. Which slots are used, and what they do, was observed; the others refuse.
//!
//! Slot 0 of a table is its size in bytes, except in the context storage.

use super::context;
use super::handles;
use super::handshake;
use super::runtime::{Cx, decode, enter, enter_local, guard, put, put_opt};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

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

static RUNTIME_TABLE: [Slot; 13] = table(&[
    (1, module_from_fatbin as *const ()),
    (2, primary_context as *const ()),
    (6, module_from_fatbin_6 as *const ()),
    (7, succeed as *const ()),
    (8, module_from_fatbin_8 as *const ()),
    (12, succeed as *const ()),
]);
static HOOKS_TABLE: [Slot; 7] = table(&[(2, hooks_2 as *const ()), (6, hooks_6 as *const ())]);
static CURRENT_TABLE: [Slot; 4] = table(&[(2, current_context as *const ())]);
static STORAGE_TABLE: [Slot; 4] = [
    Slot(storage_put as *const ()),
    Slot(storage_delete as *const ()),
    Slot(storage_get as *const ()),
    Slot(refuse as *const ()),
];
static UNNAMED_13_TABLE: [Slot; 15] =
    table(&[(2, unnamed_2 as *const ()), (3, succeed as *const ())]);
static HANDSHAKE_TABLE: [Slot; 3] = table(&[(1, handshake_1 as *const ())]);
static CONTEXTS_TABLE: [Slot; 95] = table(&[
    (4, context_number as *const ()),
    (39, stream_number as *const ()),
    (51, stream_inside as *const ()),
]);
static LAYOUT_TABLE: [Slot; 17] =
    table(&[(4, layout_get as *const ()), (13, layout_free as *const ())]);
static MODULES_TABLE: [Slot; 99] = table(&[(7, module_functions as *const ())]);

pub(super) unsafe fn cuGetExportTable(out: *mut *const c_void, id: *const CUuuid) -> CUresult {
    guard(|| {
        if out.is_null() || id.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the program's pointer to a UUID of 16 bytes.
        let uuid: Uuid = unsafe { id.cast::<Uuid>().read() };
        let found: Option<&[Slot]> = match uuid {
            RUNTIME => Some(&RUNTIME_TABLE),
            HOOKS => Some(&HOOKS_TABLE),
            CURRENT => Some(&CURRENT_TABLE),
            STORAGE => Some(&STORAGE_TABLE),
            UNNAMED_13 => Some(&UNNAMED_13_TABLE),
            HANDSHAKE => Some(&HANDSHAKE_TABLE),
            CONTEXTS => Some(&CONTEXTS_TABLE),
            LAYOUT => Some(&LAYOUT_TABLE),
            MODULES => Some(&MODULES_TABLE),
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

unsafe extern "C" fn primary_context(out: *mut CUcontext, dev: CUdevice) -> CUresult {
    guard(|| {
        let handle = context::primary_handle(enter_local()?, dev)?;
        // SAFETY: the caller's pointer.
        unsafe { put(out, handle) }
    })
}

unsafe extern "C" fn module_from_fatbin(out: *mut CUmodule, image: *const c_void) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { super::module::load(out, image, &[], None) }
}

unsafe extern "C" fn module_from_fatbin_6(
    out: *mut CUmodule,
    image: *const c_void,
    _a: *mut c_void,
    _b: *mut c_void,
    _c: u32,
) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { super::module::load(out, image, &[], None) }
}

unsafe extern "C" fn module_from_fatbin_8(
    image: *const c_void,
    out: *mut CUmodule,
    _a: *mut c_void,
    _b: *mut c_void,
    _c: u32,
) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { super::module::load(out, image, &[], None) }
}

/// Memory that the runtime's hooks for tools use as they like.
static HOOKS_A: [AtomicU64; 512] = [const { AtomicU64::new(0) }; 512];
static HOOKS_B: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];

unsafe extern "C" fn hooks_2(out: *mut *mut c_void, size: *mut usize) {
    // SAFETY: the caller's pointers.
    unsafe {
        put_opt(out, HOOKS_A.as_ptr().cast_mut().cast());
        put_opt(size, 0x400);
    }
}

unsafe extern "C" fn hooks_6(out: *mut *mut c_void, size: *mut usize) {
    // SAFETY: the caller's pointers.
    unsafe {
        put_opt(out, HOOKS_B.as_ptr().cast_mut().cast());
        put_opt(size, 14);
    }
}

unsafe extern "C" fn current_context(out: *mut CUcontext) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { context::cuCtxGetCurrent(out) }
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

unsafe extern "C" fn handshake_1(version: u32, seconds: u64, out: *mut u64) -> CUresult {
    guard(|| {
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let cx = enter_local()?;
        let devices = handshake::devices(cx);
        let facts = handshake::Facts {
            driver: cx.rt.driver_version as u32,
            pid: std::process::id(),
            // SAFETY: pthread_self has no preconditions.
            thread: unsafe { libc::pthread_self() } as u32,
            addresses: [
                RUNTIME_TABLE.as_ptr() as u64,
                HANDSHAKE_TABLE.as_ptr() as u64,
                HANDSHAKE_TABLE[1].0 as u64,
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
    })
}

unsafe extern "C" fn context_number(ctx: CUcontext, out: *mut u64) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        let id = if ctx.is_null() {
            cx.scope
        } else {
            cx.handle(Kind::Context, ctx as u64)?
        };
        // SAFETY: the caller's pointer.
        unsafe { put(out, u64::from(id)) }
    })
}

/// What stands for a stream inside the driver: here, its handle; the default streams have their
/// special values.
unsafe extern "C" fn stream_inside(
    _ctx: CUcontext,
    stream: CUstream,
    out: *mut u64,
    per_thread: i32,
) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        let raw = stream as u64;
        super::stream::id(cx, stream, per_thread != 0)?;
        let inside = match raw {
            0 if per_thread != 0 => 2,
            0 => 1,
            raw => raw,
        };
        // SAFETY: the caller's pointer.
        unsafe { put(out, inside) }
    })
}

/// A number that no other stream of the context has.
unsafe extern "C" fn stream_number(_ctx: CUcontext, inside: u64, out: *mut u64) -> CUresult {
    // SAFETY: the caller's pointer.
    guard(|| unsafe { put(out, inside) })
}

/// How the chip's processors are grouped. Two arrays that the caller gives back to `layout_free`.
unsafe extern "C" fn layout_get(index_in_gpc: *mut *mut u8, gpc_of_tpc: *mut *mut u8) -> CUresult {
    guard(|| {
        let cx = enter()?;
        if index_in_gpc.is_null() || gpc_of_tpc.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let device = context::current_device(cx)?;
        let reply = cx.cached(&msg::ChipLayout { device })?;
        let r = decode::<msg::ChipLayoutReply<'_>>(&reply)?;
        crate::log!(
            Debug,
            "the chip's layout has {} entries",
            r.gpc_of_tpc.len()
        );
        // SAFETY: malloc gives room for as many bytes as are copied, or null.
        unsafe {
            let copy = |bytes: &[u8]| {
                let p: *mut u8 = libc::malloc(bytes.len().max(1)).cast();
                if !p.is_null() {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), p, bytes.len());
                }
                p
            };
            put(index_in_gpc, copy(r.index_in_gpc))?;
            put(gpc_of_tpc, copy(r.gpc_of_tpc))
        }
    })
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
    let listed = || -> Result<(), CUresult> {
        let f = callback.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let cx = enter()?;
        let module = cx.handle(Kind::Module, module as u64)?;
        for function in super::module::functions(cx, module)? {
            // SAFETY: the caller's function and data.
            unsafe { f(user, function) };
        }
        Ok(())
    };
    i32::from(guard(listed) == CUDA_SUCCESS)
}

type Destructor = unsafe extern "C" fn(CUcontext, *mut c_void, *mut c_void);

/// A value that a library has stored beside a context.
#[derive(Clone, Copy)]
struct Stored {
    value: u64,
    destructor: Option<Destructor>,
}

static STORED: RwLock<Option<HashMap<(u32, u64), Stored>>> = RwLock::new(None);
/// Changes with every change of `STORED`: makes the threads' caches stale.
static CHANGES: AtomicU64 = AtomicU64::new(1);

/// Entries of a thread's cache.
const CACHED: usize = 16;

thread_local! {
    /// The runtime looks its state up in the storage at every call of its own, some ten thousand
    /// times in a training step: change, context, key, value.
    static CACHE: RefCell<[(u64, u32, u64, u64); CACHED]> =
        const { RefCell::new([(0, 0, 0, 0); CACHED]) };
}

fn storage_context(cx: Cx, ctx: CUcontext) -> Result<u32, CUresult> {
    if ctx.is_null() {
        cx.need_context()
    } else {
        cx.handle(Kind::Context, ctx as u64)
    }
}

unsafe extern "C" fn storage_put(
    ctx: CUcontext,
    key: *mut c_void,
    value: *mut c_void,
    destructor: Option<Destructor>,
) -> CUresult {
    guard(|| {
        let id = storage_context(enter_local()?, ctx)?;
        let mut s = STORED.write().unwrap_or_else(PoisonError::into_inner);
        let stored = Stored {
            value: value as u64,
            destructor,
        };
        s.get_or_insert_default().insert((id, key as u64), stored);
        CHANGES.fetch_add(1, Ordering::AcqRel);
        Ok(())
    })
}

unsafe extern "C" fn storage_delete(ctx: CUcontext, key: *mut c_void) -> CUresult {
    guard(|| {
        let id = storage_context(enter_local()?, ctx)?;
        let mut s = STORED.write().unwrap_or_else(PoisonError::into_inner);
        let was = s.get_or_insert_default().remove(&(id, key as u64));
        CHANGES.fetch_add(1, Ordering::AcqRel);
        was.map(drop).ok_or(CUDA_ERROR_INVALID_HANDLE)
    })
}

unsafe extern "C" fn storage_get(
    out: *mut *mut c_void,
    ctx: CUcontext,
    key: *mut c_void,
) -> CUresult {
    guard(|| {
        let id = storage_context(enter_local()?, ctx)?;
        let key = key as u64;
        let change = CHANGES.load(Ordering::Acquire);
        let at = (key >> 4 ^ key >> 12 ^ u64::from(id)) as usize % CACHED;
        let known = CACHE.try_with(|c| {
            let e = c.borrow()[at];
            (e.0 == change && e.1 == id && e.2 == key).then_some(e.3)
        });
        if let Ok(Some(value)) = known {
            // SAFETY: the caller's pointer.
            return unsafe { put(out, value as *mut c_void) };
        }
        let s = STORED.read().unwrap_or_else(PoisonError::into_inner);
        let found = s.as_ref().and_then(|s| s.get(&(id, key))).map(|s| s.value);
        drop(s);
        let value = found.ok_or(CUDA_ERROR_INVALID_HANDLE)?;
        let _ = CACHE.try_with(|c| c.borrow_mut()[at] = (change, id, key, value));
        // SAFETY: the caller's pointer.
        unsafe { put(out, value as *mut c_void) }
    })
}

/// A context is being reset: what libraries have stored beside it is handed to their destructors.
pub fn storage_destroy(context: u32) {
    let gone: Vec<_> = {
        let mut s = STORED.write().unwrap_or_else(PoisonError::into_inner);
        let all = s.get_or_insert_default();
        let keys: Vec<_> = all.keys().filter(|k| k.0 == context).copied().collect();
        keys.iter()
            .filter_map(|k| all.remove(k).map(|v| (k.1, v)))
            .collect()
    };
    CHANGES.fetch_add(1, Ordering::AcqRel);
    let ctx = handles::raw(Kind::Context, context) as CUcontext;
    for (key, s) in gone {
        if let Some(f) = s.destructor {
            // SAFETY: the library's own function, with what it stored.
            unsafe { f(ctx, key as *mut c_void, s.value as *mut c_void) };
        }
    }
}
