//! The driver's linker, a piece at a time: what is wrong with one is said when it comes.

use super::compile::Compile;
use super::prelude::*;
use super::state::handles::{Body, Link};
use busbar_wire::limits::MAX_BYTES;
use std::ffi::CStr;

fn state(w: &Cuda, id: u32) -> Result<CUlinkState> {
    w.handles.link(id).map(|link| link.state)
}

pub fn link_create(w: &mut Cuda, m: msg::LinkCreate<'_>) -> Result {
    if w.handles.link(m.link).is_ok() {
        // The driver writes to its buffers as long as it lives.
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let mut compile = Compile::new(m.options)?;
    let (keys, values) = compile.arrays();
    let mut state: CUlinkState = std::ptr::null_mut();
    // SAFETY: the options' arrays and the logs live until the link is destroyed.
    check(unsafe {
        w.cuLinkCreate_v2(
            keys.len() as u32,
            keys.as_mut_ptr(),
            values.as_mut_ptr(),
            &mut state,
        )
    })?;
    let link = Body::Link(Link { state, compile });
    w.made(&m, link);
    Ok(())
}

pub fn link_add(w: &mut Cuda, m: msg::LinkAdd<'_>) -> Result<Always<Encoded>, WireError> {
    let name = CStr::from_bytes_with_nul(m.name).map_err(|_| WireError::BadText)?;
    let rc = attempt(|| {
        let state = state(w, m.link)?;
        let image = w.image(&m.hash)?;
        // The driver does not survive zeros behind a library.
        let piece = &image.bytes[..image.len];
        let mut options = Compile::without_logs(m.options)?;
        let (keys, values) = options.arrays();
        // SAFETY: a live link; the piece is as long as said, with an end behind it if it is text,
        // and the options' arrays are of that length.
        check(unsafe {
            w.cuLinkAddData_v2(
                state,
                m.kind as _,
                piece.as_ptr().cast_mut().cast(),
                piece.len(),
                name.as_ptr(),
                keys.len() as u32,
                keys.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        })
    });
    let none = Compile::default();
    let c = w.handles.link(m.link).map_or(&none, |l| &l.compile);
    let reply = Encoded::of(&msg::LinkAddReply {
        info_log: c.info(),
        error_log: c.errors(),
        wall_ms: c.wall_ms(),
    });
    Ok(Always(rc, reply))
}

pub fn link_complete(w: &mut Cuda, m: msg::LinkComplete) -> Result<Always<Encoded>> {
    let mut image = Vec::new();
    let rc = attempt(|| {
        let state = state(w, m.link)?;
        let (mut p, mut size) = (std::ptr::null_mut(), 0);
        // SAFETY: a live link and pointers to live values.
        check(unsafe { w.cuLinkComplete(state, &mut p, &mut size) })?;
        refuse_if(size > MAX_BYTES, CUDA_ERROR_OUT_OF_MEMORY)?;
        // SAFETY: the driver's image of that size, which is there as long as the link.
        image = unsafe { std::slice::from_raw_parts(p.cast::<u8>(), size) }.to_vec();
        Ok(())
    });
    let none = Compile::default();
    let c = w.handles.link(m.link).map_or(&none, |l| &l.compile);
    let reply = Encoded::of(&msg::LinkCompleteReply {
        info_log: c.info(),
        error_log: c.errors(),
        wall_ms: c.wall_ms(),
        image: &image,
    });
    Ok(Always(rc, reply))
}

pub fn link_destroy(w: &mut Cuda, m: msg::LinkDestroy) -> Result {
    let state = state(w, m.link)?;
    // SAFETY: a live link, which is not used again; its buffers go after it.
    check(unsafe { w.cuLinkDestroy(state) })
}
