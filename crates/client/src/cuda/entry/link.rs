//! The linker, which runs at the server: pieces of code go there one by one, as the program adds
//! them, so that what is wrong with one is said at its own call.

use super::prelude::*;
use crate::cuda::engine::{image, load};
use crate::cuda::state::contexts::as_result;
use crate::cuda::state::loaded::{Link, Options};

pub fn link(cx: Cx, options: Options) -> Result<u32> {
    let id = cx.create(Kind::Link);
    let encoded = options.encode();
    let m = msg::LinkCreate {
        link: id,
        options: &encoded,
    };
    cx.call(&m).inspect_err(|_| cx.destroy(Kind::Link, id))?;
    let link = Link {
        options,
        image: Vec::new(),
    };
    cx.state().links.insert(id, link);
    Ok(id)
}

/// Writes the logs of a link where its program wants them.
///
/// # Safety
/// The pointers among the options are valid, as the API asks.
unsafe fn tell(cx: Cx, link: u32, info: &[u8], error: &[u8], wall_ms: f32) {
    cx.state().links.with(&link, |l| {
        // SAFETY: passed on to the caller.
        unsafe { load::fill(&l.options, info, error, wall_ms) };
    });
}

/// Adds a piece.
///
/// # Safety
/// `name` is null or a text, and the pointers among the link's own options valid.
unsafe fn add(
    cx: Cx,
    (link, kind): (u32, u32),
    bytes: Arc<[u8]>,
    name: *const c_char,
    options: &Options,
) -> Result<()> {
    let options = options.encode();
    let name = if name.is_null() {
        c""
    } else {
        // SAFETY: passed on to the caller.
        unsafe { CStr::from_ptr(name) }
    };
    let offered = cx.client.session.offer(bytes);
    let m = msg::LinkAdd {
        link,
        kind,
        hash: offered.hash,
        name: name.to_bytes_with_nul(),
        options: &options,
    };
    let (status, body) = cx.call_any(&m)?;
    let r = decode::<msg::LinkAddReply<'_>>(&body)?;
    // SAFETY: passed on to the caller.
    unsafe { tell(cx, link, r.info_log, r.error_log, r.wall_ms) };
    as_result(status)
}

const PTX: u32 = 1;
const FATBINARY: u32 = 2;

/// A piece as it goes to the linker. Text has an end; all else is as long as it is: the driver does
/// not survive zeros behind a library.
fn ended(kind: u32, mut bytes: Vec<u8>) -> Arc<[u8]> {
    if kind == PTX && bytes.last() != Some(&0) {
        bytes.push(0);
    }
    bytes.into()
}

pub unsafe fn link_data(
    cx: Cx,
    link: u32,
    kind: CUjitInputType,
    (data, size): (*mut c_void, usize),
    name: *const c_char,
    options: Options,
) -> Result<()> {
    refuse_if(data.is_null() || size == 0, CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: the program says that `size` bytes lie there.
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) }.to_vec();
    // SAFETY: the program's text.
    unsafe { add(cx, (link, kind), ended(kind, bytes), name, &options) }
}

pub unsafe fn link_file(
    cx: Cx,
    link: u32,
    kind: CUjitInputType,
    path: *const c_char,
    options: Options,
) -> Result<()> {
    let bytes = if kind == FATBINARY {
        // SAFETY: the program's text; the file's bytes, with a NUL behind them.
        let image = unsafe {
            let bytes = load::read_code(path)?;
            image::take(bytes.as_ptr().cast(), load::arch(cx))
        };
        image.ok_or(CUDA_ERROR_INVALID_IMAGE)?.bytes
    } else {
        // SAFETY: the program's text.
        ended(kind, unsafe { load::read_file(path)? })
    };
    // SAFETY: as above; to read the file has refused a null pointer.
    unsafe { add(cx, (link, kind), bytes, path, &options) }
}

pub unsafe fn cuLinkComplete(cx: Cx, id: u32) -> Result<(*mut c_void, usize)> {
    let (status, body) = cx.call_any(&msg::LinkComplete { link: id })?;
    let r = decode::<msg::LinkCompleteReply<'_>>(&body)?;
    // SAFETY: the program's buffers, as it described them.
    unsafe { tell(cx, id, r.info_log, r.error_log, r.wall_ms) };
    if status != CUDA_SUCCESS {
        return Err(status);
    }
    let (image, len) = cx
        .state()
        .links
        .with(&id, |l| {
            l.image = r.image.to_vec();
            (l.image.as_mut_ptr(), l.image.len())
        })
        .ok_or(CUDA_ERROR_INVALID_HANDLE)?;
    Ok((image.cast(), len))
}

pub fn cuLinkDestroy(cx: Cx, id: u32) -> Result<()> {
    cx.send(&msg::LinkDestroy { link: id })?;
    cx.destroy(Kind::Link, id);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_an_end_and_a_library_is_as_long_as_its_file() {
        const LIBRARY: u32 = 4;
        assert_eq!(&*ended(PTX, b".version 7.0".to_vec()), b".version 7.0\0");
        assert_eq!(&*ended(PTX, b".version 7.0\0".to_vec()), b".version 7.0\0");
        assert_eq!(&*ended(LIBRARY, b"!<arch>\n".to_vec()), b"!<arch>\n");
    }
}
