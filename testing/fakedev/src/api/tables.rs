//! `cuGetExportTable`: the undocumented tables that the runtime library and the math libraries ask
//! for, and the handshake that the runtime checks.

use super::module::load;
use crate::entry::api;
use crate::ffi::*;
use crate::state::context::{self, Context, StorageDestructor};
use crate::state::{device, module};
use hmac::{KeyInit, Mac, SimpleHmac};
use md2::Md2;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, LazyLock, Mutex};

type F = usize;

/// The key of the handshake.
const KEY: [u8; 16] = [
    0x14, 0x6a, 0xdd, 0xae, 0x53, 0xa9, 0xa7, 0x52, 0xaa, 0x08, 0x41, 0x36, 0x0b, 0xf5, 0x5a, 0x9f,
];
const HALF: u64 = 0x8ed3_83aa_1f4c_d1e8;
const FIRST: [u64; 2] = [0x3341_181c_03cb_675c, HALF];
const SECOND: [u64; 2] = [0x1841_181c_03cb_675c, HALF];

const RUNTIME: u128 = 0x6bd5fb6c_5bf4_e74a_8987_d93912fd9df9;
const SCRATCH: u128 = 0xa094798c_2e74_2e74_93f2_0800200c0a66;
const CURRENT: u128 = 0x42d85a81_23f6_cb47_8298_f6e78a3aecdc;
const STORAGE: u128 = 0xc693336e_1121_df11_a8c3_68f355d89593;
const HOOKS: u128 = 0x263e8860_7cd2_6143_92f6_bbd5006dfa7e;
const HANDSHAKE: u128 = 0xd4082055_bde6_704b_8d34_ba123c66e1f2;
const CONTEXT_ID: u128 = 0x21318c60_9714_3248_8ca6_41ff7324c8f2;
const CHIP: u128 = 0x1734dc26_800d_4745_8726_c0f1e7dd8bca;
const MODULES: u128 = 0x6e163fbe_b958_444d_835c_e182aff1991e;
const COMPILED: u128 = 0xda9151d3_3ae6_cc41_a5c0_4f26d533e328;

/// Texture processing clusters, as an H200 has.
const TPCS: usize = 66;
const TPCS_IN_GPC: usize = 9;

/// A table whose slot 0 is its size in bytes.
fn table(slots: usize, functions: &[(usize, F)]) -> Vec<usize> {
    let mut table = vec![refuse as *const () as usize; slots];
    table[0] = slots * size_of::<usize>();
    for (slot, f) in functions {
        table[*slot] = *f;
    }
    table
}

#[derive(Default)]
struct Tables {
    tables: Vec<(u128, Vec<usize>)>,
    /// What compilers asked to keep, by what went into it.
    compiled: Mutex<HashMap<(Compiled, u32), Vec<u8>>>,
}

/// Forgets what compilers have kept.
pub fn reset() {
    TABLES.compiled.lock().unwrap().clear();
}

/// What a compiler says goes into a result.
type Compiled = (u32, Vec<u8>, [Vec<u8>; 3], u32);

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let tables = vec![
        (
            RUNTIME,
            table(
                13,
                &[
                    (1, load_module as *const () as F),
                    (2, primary_context as *const () as F),
                    (6, load_module as *const () as F),
                    (7, teardown as *const () as F),
                    (8, load_fat_header as *const () as F),
                    (12, nothing as *const () as F),
                ],
            ),
        ),
        (
            SCRATCH,
            table(
                7,
                &[
                    (2, scratch_large as *const () as F),
                    (6, scratch_small as *const () as F),
                ],
            ),
        ),
        (CURRENT, table(4, &[(2, current_context as *const () as F)])),
        (
            STORAGE,
            vec![
                storage_put as *const () as F,
                storage_delete as *const () as F,
                storage_get as *const () as F,
                refuse as *const () as F,
            ],
        ),
        (
            HOOKS,
            table(
                15,
                &[(2, hook as *const () as F), (3, nothing as *const () as F)],
            ),
        ),
        (HANDSHAKE, table(3, &[(1, handshake as *const () as F)])),
        (CONTEXT_ID, table(95, &[(4, context_id as *const () as F)])),
        (
            CHIP,
            table(
                17,
                &[
                    (4, chip_map as *const () as F),
                    (13, free_map as *const () as F),
                ],
            ),
        ),
        (MODULES, table(99, &[(7, each_function as *const () as F)])),
        (
            COMPILED,
            table(
                7,
                &[
                    (1, compiled_open as *const () as F),
                    (2, compiled_close as *const () as F),
                    (3, compiled_find as *const () as F),
                    (4, compiled_keep as *const () as F),
                    (6, compiled_free as *const () as F),
                ],
            ),
        ),
    ];
    Tables {
        tables,
        ..Tables::default()
    }
});

fn find(uuid: u128) -> Option<&'static [usize]> {
    TABLES
        .tables
        .iter()
        .find(|(id, _)| *id == uuid)
        .map(|(_, table)| &table[..])
}

fn answer(result: Res) -> CUresult {
    result.err().unwrap_or(0)
}

extern "C" fn refuse() -> CUresult {
    NOT_SUPPORTED
}

extern "C" fn nothing() -> CUresult {
    0
}

extern "C" fn teardown(_size: usize) -> CUresult {
    0
}

unsafe extern "C" fn primary_context(out: *mut CUcontext, device: CUdevice) -> CUresult {
    let context = device::by_ordinal(device).map(|device| context::primary(device).handle);
    // SAFETY: the runtime's pointer is null or valid.
    answer(context.and_then(|context| unsafe { put(out, context) }))
}

unsafe extern "C" fn load_module(out: *mut CUmodule, wrapper: *const c_void) -> CUresult {
    // SAFETY: the runtime gives a fat binary's wrapper.
    answer(unsafe { load(out, wrapper) })
}

unsafe extern "C" fn load_fat_header(header: *const c_void, out: *mut CUmodule) -> CUresult {
    // SAFETY: the runtime gives a fat binary.
    answer(unsafe { load(out, header) })
}

/// Memory that the runtime writes to and never gives back.
fn scratch(words: usize) -> usize {
    Vec::leak(vec![0_u32; words]).as_mut_ptr() as usize
}

unsafe fn give_scratch(out: *mut usize, size: *mut usize, memory: usize, words: usize) -> CUresult {
    // SAFETY: the runtime's pointers are null or valid.
    unsafe {
        put_opt(size, words);
        answer(put(out, memory))
    }
}

unsafe extern "C" fn scratch_large(out: *mut usize, size: *mut usize) -> CUresult {
    static MEMORY: LazyLock<usize> = LazyLock::new(|| scratch(1024));
    // SAFETY: by the caller's contract.
    unsafe { give_scratch(out, size, *MEMORY, 1024) }
}

unsafe extern "C" fn scratch_small(out: *mut usize, size: *mut usize) -> CUresult {
    static MEMORY: LazyLock<usize> = LazyLock::new(|| scratch(14));
    // SAFETY: by the caller's contract.
    unsafe { give_scratch(out, size, *MEMORY, 14) }
}

unsafe extern "C" fn current_context(out: *mut CUcontext) -> CUresult {
    // SAFETY: the library's pointer is null or valid.
    answer(unsafe { put(out, context::current_handle()) })
}

fn storage_of(handle: CUcontext) -> R<Arc<Context>> {
    let handle = if handle == 0 {
        context::current_handle()
    } else {
        handle
    };
    context::CONTEXTS.get(handle).map_err(|_| INVALID_CONTEXT)
}

extern "C" fn storage_put(
    handle: CUcontext,
    key: usize,
    value: usize,
    destructor: Option<StorageDestructor>,
) -> CUresult {
    answer(storage_of(handle).map(|context| {
        context
            .storage
            .lock()
            .unwrap()
            .insert(key, (value, destructor));
    }))
}

extern "C" fn storage_delete(handle: CUcontext, key: usize) -> CUresult {
    let removed = storage_of(handle).and_then(|context| {
        context
            .storage
            .lock()
            .unwrap()
            .remove(&key)
            .ok_or(INVALID_HANDLE)
    });
    answer(removed.map(drop))
}

unsafe extern "C" fn storage_get(out: *mut usize, handle: CUcontext, key: usize) -> CUresult {
    let value = storage_of(handle).and_then(|context| {
        let storage = context.storage.lock().unwrap();
        storage
            .get(&key)
            .map(|(value, _)| *value)
            .ok_or(INVALID_HANDLE)
    });
    // SAFETY: the library's pointer is null or valid.
    answer(value.and_then(|value| unsafe { put(out, value) }))
}

unsafe extern "C" fn hook(_context: CUcontext, out: *mut u32, _rest: *mut c_void) -> CUresult {
    // SAFETY: the runtime's pointer is null or valid.
    unsafe { put_opt(out, 0) };
    0
}

unsafe extern "C" fn context_id(context: CUcontext, out: *mut u64) -> CUresult {
    let id = u64::from(context != 0);
    // SAFETY: the library's pointer is null or valid.
    answer(unsafe { put(out, id) })
}

unsafe extern "C" fn chip_map(index: *mut *mut u8, gpc: *mut *mut u8) -> CUresult {
    // SAFETY: the pointers are null or valid, and each array has the bytes that are written to it.
    unsafe {
        let (a, b) = (
            libc::malloc(TPCS).cast::<u8>(),
            libc::malloc(TPCS).cast::<u8>(),
        );
        if a.is_null() || b.is_null() {
            return OUT_OF_MEMORY;
        }
        for tpc in 0..TPCS {
            a.add(tpc).write((tpc % TPCS_IN_GPC) as u8);
            b.add(tpc).write((tpc / TPCS_IN_GPC) as u8);
        }
        answer(put(index, a).and_then(|()| put(gpc, b)))
    }
}

unsafe extern "C" fn free_map(a: *mut c_void, b: *mut c_void) -> CUresult {
    // SAFETY: the library gives back what `chip_map` gave it.
    unsafe {
        libc::free(a);
        libc::free(b);
    }
    0
}

unsafe extern "C" fn each_function(
    _context: CUcontext,
    module: CUmodule,
    callback: Option<unsafe extern "C" fn(usize, CUfunction)>,
    user: usize,
) -> i32 {
    let Ok(module) = module::MODULES.get(module) else {
        return 0;
    };
    for (name, _) in module.image.kernels.iter().flatten() {
        if let (Ok(function), Some(callback)) = (module.function(name), callback) {
            // SAFETY: the library gave this function to be called for each function of the module.
            unsafe { callback(user, function.handle) };
        }
    }
    1
}

/// Shows the runtime that this is the driver that it was made for.
unsafe extern "C" fn handshake(version: u32, seconds: u64, out: *mut [u64; 2]) -> CUresult {
    let result = match version % 10 {
        0 => FIRST,
        1 => SECOND,
        _ => digest(version, seconds),
    };
    // SAFETY: the runtime's pointer is null or valid.
    answer(unsafe { put(out, result) })
}

fn digest(version: u32, seconds: u64) -> [u64; 2] {
    let mut mac = SimpleHmac::<Md2>::new_from_slice(&KEY).expect("any length is a key");
    // SAFETY: no arguments, no failure.
    let thread = unsafe { libc::pthread_self() } as u64 as u32;
    let address = |uuid| find(uuid).map_or(0, |table| table.as_ptr() as u64);
    mac.update(&(device::DRIVER_VERSION as u32).to_le_bytes());
    mac.update(&version.to_le_bytes());
    mac.update(&std::process::id().to_le_bytes());
    mac.update(&thread.to_le_bytes());
    mac.update(&address(RUNTIME).to_le_bytes());
    mac.update(&address(HANDSHAKE).to_le_bytes());
    mac.update(&(handshake as *const () as u64).to_le_bytes());
    mac.update(&seconds.to_le_bytes());
    for index in 0..device::count() {
        mac.update(&device::get(index).uuid());
        for part in device::get(index).pci() {
            mac.update(&part.to_le_bytes());
        }
    }
    let bytes = mac.finalize().into_bytes();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    [word(0), word(8)]
}

api! {
    fn [cuGetExportTable] (out: *mut *const usize, uuid: *const Uuid) {
        let uuid = u128::from_be_bytes(get(uuid)?.0);
        put(out, std::ptr::null())?;
        put(out, find(uuid).ok_or(NOT_FOUND)?.as_ptr())
    }
}

/// Kept results live as long as the process here; the real driver has files.
unsafe extern "C" fn compiled_open(
    out: *mut *mut Compiled,
    kind: u32,
    source: *const u8,
    len: usize,
    options: *const c_char,
    host: *const c_char,
    version: *const c_char,
    chip: u32,
) -> CUresult {
    // SAFETY: the compiler's texts end with a zero.
    let text = |p: *const c_char| unsafe { CStr::from_ptr(p) }.to_bytes().to_vec();
    let texts = [text(options), text(host), text(version)];
    // SAFETY: the compiler gives `len` bytes.
    let source = unsafe { std::slice::from_raw_parts(source, len) }.to_vec();
    let made = Box::into_raw(Box::new((kind, source, texts, chip)));
    // SAFETY: the compiler's pointer.
    answer(unsafe { put(out, made) })
}

unsafe extern "C" fn compiled_close(handle: *mut Compiled) -> CUresult {
    // SAFETY: from `compiled_open`, and not used again.
    drop(unsafe { Box::from_raw(handle) });
    0
}

unsafe extern "C" fn compiled_find(
    handle: *const Compiled,
    part: u32,
    out: *mut *mut u8,
    len: *mut u32,
) -> CUresult {
    // SAFETY: from `compiled_open`.
    let key = (unsafe { (*handle).clone() }, part);
    let kept = TABLES.compiled.lock().unwrap();
    let found = kept.get(&key).ok_or(NOT_FOUND);
    answer(found.and_then(|bytes| {
        // SAFETY: room for the bytes; the compiler's pointers.
        unsafe {
            let p: *mut u8 = libc::malloc(bytes.len()).cast();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), p, bytes.len());
            put(len, bytes.len() as u32)?;
            put(out, p)
        }
    }))
}

unsafe extern "C" fn compiled_keep(
    handle: *const Compiled,
    part: u32,
    bytes: *const u8,
    len: usize,
) -> CUresult {
    // SAFETY: from `compiled_open`; the compiler gives `len` bytes.
    let (key, bytes) = unsafe { ((*handle).clone(), std::slice::from_raw_parts(bytes, len)) };
    let mut kept = TABLES.compiled.lock().unwrap();
    kept.insert((key, part), bytes.to_vec());
    0
}

unsafe extern "C" fn compiled_free(bytes: *mut u8) -> CUresult {
    // SAFETY: from `compiled_find`.
    unsafe { libc::free(bytes.cast()) };
    0
}
