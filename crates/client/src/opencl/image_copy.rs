//! Copies between images and buffers, and fills: commands that move nothing over the network.

use super::entry;
use super::event::{self, Out};
use super::image::{area_layout, check_area, image};
use super::memory::buffer;
use super::object::get;
use super::queue::Queue;
use busbar_abi::opencl::*;
use busbar_wire::generated::opencl as wire;

/// `clEnqueueCopyImage`.
pub unsafe extern "C" fn enqueue_copy_image(
    queue: Handle,
    from: Handle,
    to: Handle,
    from_origin: *const usize,
    to_origin: *const usize,
    region: *const usize,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles and lists, here and below.
    entry::status(|| unsafe {
        let q = get::<Queue>(queue)?;
        let ((a, ai), (b, bi)) = (image(&q.context, from)?, image(&q.context, to)?);
        if ai.format != bi.format {
            return Err(CL_IMAGE_FORMAT_MISMATCH);
        }
        let (from_origin, to_origin) = (entry::three(from_origin)?, entry::three(to_origin)?);
        let region = entry::three(region)?;
        check_area(ai, &from_origin, &region)?;
        check_area(bi, &to_origin, &region)?;
        let near = |x: usize| from_origin[x].abs_diff(to_origin[x]) < region[x];
        if std::ptr::eq(a, b) && (0..3).all(near) {
            return Err(CL_MEM_COPY_OVERLAP);
        }
        let waits = event::waits(&q.context, n, list)?;
        let out = Out::new(q, CL_COMMAND_COPY_IMAGE, out);
        q.server.queue(&wire::CopyImage {
            queue: q.id,
            from: a.id,
            to: b.id,
            event: out.id(),
            waits,
            from_origin,
            to_origin,
            region,
        })?;
        out.give();
        Ok(())
    })
}

/// `clEnqueueCopyImageToBuffer`.
pub unsafe extern "C" fn enqueue_copy_image_to_buffer(
    queue: Handle,
    from: Handle,
    to: Handle,
    origin: *const usize,
    region: *const usize,
    offset: usize,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles and lists, here and below.
    entry::status(|| unsafe {
        let q = get::<Queue>(queue)?;
        let ((a, i), b) = (image(&q.context, from)?, buffer(&q.context, to)?);
        let (origin, region) = (entry::three(origin)?, entry::three(region)?);
        check_area(i, &origin, &region)?;
        b.check_range(offset, area_layout(i, &region, 0, 0)?.packed())?;
        let waits = event::waits(&q.context, n, list)?;
        let out = Out::new(q, CL_COMMAND_COPY_IMAGE_TO_BUFFER, out);
        q.server.queue(&wire::CopyImageToBuffer {
            queue: q.id,
            from: a.id,
            to: b.id,
            event: out.id(),
            waits,
            origin,
            region,
            offset: offset as u64,
        })?;
        out.give();
        Ok(())
    })
}

/// `clEnqueueCopyBufferToImage`.
pub unsafe extern "C" fn enqueue_copy_buffer_to_image(
    queue: Handle,
    from: Handle,
    to: Handle,
    offset: usize,
    origin: *const usize,
    region: *const usize,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles and lists, here and below.
    entry::status(|| unsafe {
        let q = get::<Queue>(queue)?;
        let (a, (b, i)) = (buffer(&q.context, from)?, image(&q.context, to)?);
        let (origin, region) = (entry::three(origin)?, entry::three(region)?);
        check_area(i, &origin, &region)?;
        a.check_range(offset, area_layout(i, &region, 0, 0)?.packed())?;
        let waits = event::waits(&q.context, n, list)?;
        let out = Out::new(q, CL_COMMAND_COPY_BUFFER_TO_IMAGE, out);
        q.server.queue(&wire::CopyBufferToImage {
            queue: q.id,
            from: a.id,
            to: b.id,
            event: out.id(),
            waits,
            offset: offset as u64,
            origin,
            region,
        })?;
        out.give();
        Ok(())
    })
}

/// `clEnqueueFillImage`.
pub unsafe extern "C" fn enqueue_fill_image(
    queue: Handle,
    memory: Handle,
    color: *const u32,
    origin: *const usize,
    region: *const usize,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles, lists and memory, here and below.
    entry::status(|| unsafe {
        let q = get::<Queue>(queue)?;
        let (m, i) = image(&q.context, memory)?;
        if color.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        let (origin, region) = (entry::three(origin)?, entry::three(region)?);
        check_area(i, &origin, &region)?;
        // Depth has one channel; everything else gives four.
        let lanes = if i.format.order == CL_DEPTH { 1 } else { 4 };
        let mut color4 = [0; 4];
        color4[..lanes].copy_from_slice(std::slice::from_raw_parts(color, lanes));
        let waits = event::waits(&q.context, n, list)?;
        let out = Out::new(q, CL_COMMAND_FILL_IMAGE, out);
        q.server.queue(&wire::FillImage {
            queue: q.id,
            image: m.id,
            event: out.id(),
            waits,
            color: color4,
            origin,
            region,
        })?;
        out.give();
        Ok(())
    })
}
