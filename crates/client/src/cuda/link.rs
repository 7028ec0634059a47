//! The linker: pieces of code are collected here and linked at the server in one go.

use super::image;
use super::library::arch;
use super::module::{Options, read_file};
use super::runtime::{Cx, decode, enter, guard, put, put_opt};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

struct Piece {
    kind: u32,
    bytes: Arc<[u8]>,
    name: CString,
}

/// A link in progress.
struct Link {
    options: Options,
    pieces: Vec<Piece>,
    /// The result, which the program may read until the link is destroyed.
    image: Vec<u8>,
}

static LINKS: Mutex<Option<HashMap<u32, Link>>> = Mutex::new(None);

fn links() -> MutexGuard<'static, Option<HashMap<u32, Link>>> {
    LINKS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) unsafe fn cuLinkCreate_v2(
    n: u32,
    options: *mut CUjit_option,
    values: *mut *mut c_void,
    out: *mut CUlinkState,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        cx.need_context()?;
        // SAFETY: the program's arrays.
        let options = unsafe { Options::read(options, values, n)? };
        let id = cx.create(Kind::Link);
        let link = Link {
            options,
            pieces: Vec::new(),
            image: Vec::new(),
        };
        links().get_or_insert_default().insert(id, link);
        // SAFETY: the program's pointer.
        unsafe { put(out, cx.raw(Kind::Link, id) as CUlinkState) }
    })
}

fn add(cx: Cx, state: CUlinkState, piece: Piece) -> Result<(), CUresult> {
    let id = cx.handle(Kind::Link, state as u64)?;
    let mut all = links();
    let link = all
        .get_or_insert_default()
        .get_mut(&id)
        .ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    link.pieces.push(piece);
    Ok(())
}

const PTX: u32 = 1;

pub(super) unsafe fn cuLinkAddData_v2(
    state: CUlinkState,
    kind: CUjitInputType,
    data: *mut c_void,
    size: usize,
    name: *const c_char,
    _n: u32,
    _options: *mut CUjit_option,
    _values: *mut *mut c_void,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        if data.is_null() || size == 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the program says that `size` bytes lie there.
        let mut bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) }.to_vec();
        if kind == PTX && bytes.last() != Some(&0) {
            bytes.push(0);
        }
        let name = if name.is_null() {
            c""
        } else {
            // SAFETY: the program's text.
            unsafe { CStr::from_ptr(name) }
        };
        add(
            cx,
            state,
            Piece {
                kind,
                bytes: bytes.into(),
                name: name.into(),
            },
        )
    })
}

pub(super) unsafe fn cuLinkAddFile_v2(
    state: CUlinkState,
    kind: CUjitInputType,
    path: *const c_char,
    _n: u32,
    _options: *mut CUjit_option,
    _values: *mut *mut c_void,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        // SAFETY: the program's text.
        let bytes = unsafe { read_file(path)? };
        const FATBINARY: u32 = 2;
        let bytes = if kind == FATBINARY {
            // SAFETY: the file's bytes.
            let image = unsafe { image::take(bytes.as_ptr().cast(), arch(cx)) };
            image.ok_or(CUDA_ERROR_INVALID_IMAGE)?.bytes
        } else {
            bytes.into()
        };
        // SAFETY: as above; `read_file` has refused a null pointer.
        let name = unsafe { CStr::from_ptr(path) };
        add(
            cx,
            state,
            Piece {
                kind,
                bytes,
                name: name.into(),
            },
        )
    })
}

pub(super) unsafe fn cuLinkComplete(
    state: CUlinkState,
    image_out: *mut *mut c_void,
    size_out: *mut usize,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let id = cx.handle(Kind::Link, state as u64)?;
        if image_out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let link = links().get_or_insert_default().remove(&id);
        let mut link = link.ok_or(CUDA_ERROR_INVALID_HANDLE)?;
        let (mut kinds, mut hashes, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for p in &link.pieces {
            kinds.push(p.kind);
            hashes.extend_from_slice(&cx.rt.session.offer(p.bytes.clone()));
            names.extend_from_slice(p.name.to_bytes_with_nul());
        }
        let options = link.options.encode();
        let m = msg::LinkImages {
            pieces: kinds,
            hashes: &hashes,
            names: &names,
            options: &options,
        };
        let linked = cx.call_any(&m).and_then(|(status, body)| {
            let r = decode::<msg::LinkImagesReply<'_>>(&body)?;
            // SAFETY: the program's buffers, as it described them.
            unsafe { link.options.fill(r.info_log, r.error_log, r.wall_ms) };
            link.image = r.image.to_vec();
            if status == CUDA_SUCCESS {
                Ok(())
            } else {
                Err(status)
            }
        });
        // SAFETY: checked for null above; the program's pointers.
        unsafe {
            put(image_out, link.image.as_mut_ptr().cast())?;
            put_opt(size_out, link.image.len());
        }
        links().get_or_insert_default().insert(id, link);
        linked
    })
}

pub(super) unsafe fn cuLinkDestroy(state: CUlinkState) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let id = cx.handle(Kind::Link, state as u64)?;
        links().get_or_insert_default().remove(&id);
        cx.destroy(Kind::Link, id);
        Ok(())
    })
}
