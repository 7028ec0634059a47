//! Images: creation, queries, reads, writes, maps, copies and fills. Pixels travel without gaps;
//! rows and slices are spread out or packed on the client.

use super::prelude::*;
use crate::opencl::engine::{map, transfer};
use crate::opencl::state::image::{Image, Wanted};
use crate::opencl::state::layout::Layout;
use crate::opencl::state::memory::{POINTER, check_flags, sent_flags};
use crate::opencl::state::object::get;
use crate::opencl::state::rect::overlap;
use crate::opencl::state::values::Table;
use busbar_wire::Reader;
use std::borrow::Cow;

/// What the device says of a new image.
fn facts(c: &Object<Context>, image: u32) -> Result<Table> {
    let answer = c.server.call(&wire::ImageInfo { image })?;
    let reply: wire::ImageInfoReply = decode(&answer)?;
    Table::read(&mut Reader::new(reply.table)).map_err(|_| LOST)
}

/// `clCreateImage`.
pub unsafe fn clCreateImage(
    c: &Object<Context>,
    flags: u64,
    format: Option<ImageFormat>,
    desc: Option<ImageDesc>,
    host: Handle,
) -> Result<Handle> {
    let none = Properties(Vec::new());
    // SAFETY: passed on to the caller.
    unsafe { clCreateImageWithProperties(c, none, flags, format, desc, host) }
}

/// `clCreateImageWithProperties`.
pub unsafe fn clCreateImageWithProperties(
    c: &Object<Context>,
    properties: Properties,
    flags: u64,
    format: Option<ImageFormat>,
    desc: Option<ImageDesc>,
    host: Handle,
) -> Result<Handle> {
    if properties.0.first().is_some_and(|p| *p != 0) {
        return Err(CL_INVALID_PROPERTY);
    }
    let format = format.ok_or(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR)?;
    let desc = desc.ok_or(CL_INVALID_IMAGE_DESCRIPTOR)?;
    refuse_if(!c.has(CL_DEVICE_IMAGE_SUPPORT), CL_INVALID_OPERATION)?;
    let parent = if desc.parent.is_null() {
        None
    } else {
        // SAFETY: the program's handle.
        let parent = unsafe { get::<Memory>(desc.parent) };
        Some(parent.map_err(|_| CL_INVALID_IMAGE_DESCRIPTOR)?)
    };
    match parent.is_some() {
        true if !host.is_null() => return Err(CL_INVALID_HOST_PTR),
        true => {}
        false => check_flags(flags, !host.is_null())?,
    }
    let wanted = Wanted::check(format, &desc, !host.is_null())?;
    let layout = wanted.layout;
    let contents = match host.is_null() {
        true => Cow::Borrowed(&[][..]),
        // SAFETY: the program says that there is a whole image.
        false => unsafe { layout.gather(host.cast()) },
    };
    let id = c.server.id();
    c.server.send(&contents, |blob, data| wire::CreateImage {
        image: id,
        context: c.id,
        flags: sent_flags(flags),
        format: [format.order, format.data_type],
        kind: desc.kind,
        shape: wanted.sent(parent.is_some()),
        parent: parent.map_or(0, |p| p.id),
        blob,
        data,
    })?;
    let all = flags | parent.map_or(0, |p| p.flags & POINTER);
    let mut body = Memory::new(c.keep(), desc.kind, all, 0, host, properties.0);
    body.parent = parent.map(|p| (p.keep(), 0));
    // The object exists, whatever the answer is, and dropping it tells the worker.
    let (table, failed) = match facts(c, id) {
        Ok(table) => (table, None),
        Err(e) => (Table::default(), Some(e)),
    };
    // A map of the object has this size: it holds the pixels, whatever the server says.
    body.size = (table.number(CL_MEM_SIZE) as usize).max(layout.packed());
    if !host.is_null() && flags & CL_MEM_USE_HOST_PTR != 0 {
        body.size = layout.slice_pitch * layout.slices;
    }
    body.image = Some(Image {
        format,
        shape: wanted.shape,
        element: wanted.element,
        table,
    });
    let object = Object::new(c.server, id, body);
    failed.map_or_else(|| Ok(object.give()), Err)
}

fn desc(kind: u32, size: [usize; 3], pitch: (usize, usize)) -> Option<ImageDesc> {
    Some(ImageDesc {
        kind,
        width: size[0],
        height: size[1],
        depth: size[2],
        array_size: 0,
        row_pitch: pitch.0,
        slice_pitch: pitch.1,
        levels: 0,
        samples: 0,
        parent: std::ptr::null_mut(),
    })
}

/// `clCreateImage2D`.
pub unsafe fn clCreateImage2D(
    c: &Object<Context>,
    flags: u64,
    format: Option<ImageFormat>,
    width: usize,
    height: usize,
    row_pitch: usize,
    host: Handle,
) -> Result<Handle> {
    let desc = desc(CL_MEM_OBJECT_IMAGE2D, [width, height, 0], (row_pitch, 0));
    // SAFETY: passed on to the caller.
    unsafe { clCreateImage(c, flags, format, desc, host) }
}

/// `clCreateImage3D`.
pub unsafe fn clCreateImage3D(
    c: &Object<Context>,
    flags: u64,
    format: Option<ImageFormat>,
    width: usize,
    height: usize,
    depth: usize,
    pitch: (usize, usize),
    host: Handle,
) -> Result<Handle> {
    let desc = desc(CL_MEM_OBJECT_IMAGE3D, [width, height, depth], pitch);
    // SAFETY: passed on to the caller.
    unsafe { clCreateImage(c, flags, format, desc, host) }
}

/// An area of an image, and the box of its pixels in the program's memory.
type Area = (([u64; 3], [u64; 3]), Layout);

/// Checks an area that is read or written.
fn check(
    q: &Queue,
    m: &Memory,
    (origin, region): (Three, Three),
    (row_pitch, slice_pitch): (usize, usize),
    (memory, write): (*const c_void, bool),
) -> Result<Area> {
    let i = m.image(&q.context)?;
    let (origin, region) = (origin.get()?, region.get()?);
    i.check_area(&origin, &region)?;
    let layout = i.area(&region, row_pitch, slice_pitch)?;
    refuse_if(memory.is_null(), CL_INVALID_VALUE)?;
    m.host_may(write)?;
    Ok(((origin, region), layout))
}

/// `clEnqueueReadImage`.
pub unsafe fn clEnqueueReadImage(
    q: &Object<Queue>,
    m: &Object<Memory>,
    blocking: bool,
    area: (Three, Three),
    pitch: (usize, usize),
    to: Handle,
    events: Events<'_>,
) -> Result<()> {
    let (area, layout) = check(q, m, area, pitch, (to, false))?;
    let (out, links) = begin(q, CL_COMMAND_READ_IMAGE, events)?;
    let msg = transfer::read_image(q, m, area, layout.packed(), links);
    // SAFETY: the program's memory, which it leaves alone until the command has run.
    unsafe { transfer::fetch_box(q, blocking, &msg, (layout, to.cast()), out, || ()) }
}

/// `clEnqueueWriteImage`.
pub unsafe fn clEnqueueWriteImage(
    q: &Object<Queue>,
    m: &Object<Memory>,
    blocking: bool,
    area: (Three, Three),
    pitch: (usize, usize),
    from: *const c_void,
    events: Events<'_>,
) -> Result<()> {
    let (area, layout) = check(q, m, area, pitch, (from, true))?;
    let (out, links) = begin(q, CL_COMMAND_WRITE_IMAGE, events)?;
    let free = links.1.is_empty();
    // SAFETY: the program's memory, which it leaves as it is until the command has run.
    unsafe {
        let from = (layout, from.cast::<u8>());
        transfer::put_pixels(q, m, from, false, area, links)?;
    }
    transfer::written(q, blocking, free, out)
}

/// `clEnqueueMapImage`.
pub fn clEnqueueMapImage(
    q: &Object<Queue>,
    m: &Object<Memory>,
    blocking: bool,
    flags: u64,
    (origin, region): (Three, Three),
    (row_pitch, slice_pitch): (Slot<usize>, Slot<usize>),
    events: Events<'_>,
) -> Result<Handle> {
    let i = m.image(&q.context)?;
    let area = (origin.get()?, region.get()?);
    i.check_area(&area.0, &area.1)?;
    let layered = i.shape.layered();
    refuse_if(row_pitch.is_none(), CL_INVALID_VALUE)?;
    refuse_if(layered && slice_pitch.is_none(), CL_INVALID_VALUE)?;
    let fetches = map::check(m, flags)?;
    let (out, links) = begin(q, CL_COMMAND_MAP_IMAGE, events)?;
    let (at, [row, slice]) = map::map_image(q, m, blocking, (flags, fetches), area, links, out)?;
    row_pitch.put(row);
    slice_pitch.put(if layered { slice } else { 0 });
    Ok(at)
}

/// `clGetImageInfo`.
pub fn clGetImageInfo(m: &Object<Memory>, param: u32, to: Answer) -> Result<()> {
    let i = m.image.as_ref().ok_or(CL_INVALID_MEM_OBJECT)?;
    to.give(&match param {
        CL_IMAGE_BUFFER => match &m.parent {
            Some((p, _)) if p.kind == CL_MEM_OBJECT_BUFFER => p.handle().plain(),
            _ => 0usize.plain(),
        },
        _ => i.info(param, m.host != 0)?,
    })
}

/// `clEnqueueCopyImage`.
pub fn clEnqueueCopyImage(
    q: &Object<Queue>,
    from: &Object<Memory>,
    to: &Object<Memory>,
    from_origin: Three,
    to_origin: Three,
    region: Three,
    events: Events<'_>,
) -> Result<()> {
    let (a, b) = (from.image(&q.context)?, to.image(&q.context)?);
    refuse_if(a.format != b.format, CL_IMAGE_FORMAT_MISMATCH)?;
    let (from_origin, to_origin) = (from_origin.get()?, to_origin.get()?);
    let region = region.get()?;
    a.check_area(&from_origin, &region)?;
    b.check_area(&to_origin, &region)?;
    if from.is(to) && overlap(&from_origin, &to_origin, &region) {
        return Err(CL_MEM_COPY_OVERLAP);
    }
    command!(q, events, CL_COMMAND_COPY_IMAGE => CopyImage {
        from: from.id,
        to: to.id,
        from_origin,
        to_origin,
        region,
    })
}

/// Checks a copy between an area of an image and the bytes at `offset` of a buffer.
fn check_copy(
    q: &Queue,
    image: &Memory,
    buffer: &Memory,
    (origin, region): (Three, Three),
    offset: usize,
) -> Result<([u64; 3], [u64; 3])> {
    let i = image.image(&q.context)?;
    buffer.check_buffer(&q.context)?;
    let area = (origin.get()?, region.get()?);
    i.check_area(&area.0, &area.1)?;
    buffer.check_range(offset, i.area(&area.1, 0, 0)?.packed())?;
    Ok(area)
}

/// `clEnqueueCopyImageToBuffer`.
pub fn clEnqueueCopyImageToBuffer(
    q: &Object<Queue>,
    from: &Object<Memory>,
    to: &Object<Memory>,
    origin: Three,
    region: Three,
    offset: usize,
    events: Events<'_>,
) -> Result<()> {
    let (origin, region) = check_copy(q, from, to, (origin, region), offset)?;
    command!(q, events, CL_COMMAND_COPY_IMAGE_TO_BUFFER => CopyImageToBuffer {
        from: from.id,
        to: to.id,
        origin,
        region,
        offset: offset as u64,
    })
}

/// `clEnqueueCopyBufferToImage`.
pub fn clEnqueueCopyBufferToImage(
    q: &Object<Queue>,
    from: &Object<Memory>,
    to: &Object<Memory>,
    offset: usize,
    origin: Three,
    region: Three,
    events: Events<'_>,
) -> Result<()> {
    let (origin, region) = check_copy(q, to, from, (origin, region), offset)?;
    command!(q, events, CL_COMMAND_COPY_BUFFER_TO_IMAGE => CopyBufferToImage {
        from: from.id,
        to: to.id,
        offset: offset as u64,
        origin,
        region,
    })
}

/// `clEnqueueFillImage`.
pub unsafe fn clEnqueueFillImage(
    q: &Object<Queue>,
    m: &Object<Memory>,
    color: *const c_void,
    (origin, region): (Three, Three),
    events: Events<'_>,
) -> Result<()> {
    let i = m.image(&q.context)?;
    refuse_if(color.is_null(), CL_INVALID_VALUE)?;
    let (origin, region) = (origin.get()?, region.get()?);
    i.check_area(&origin, &region)?;
    // Depth has one channel; everything else gives four.
    let lanes = if i.format.order == CL_DEPTH { 1 } else { 4 };
    // SAFETY: the program gives as many.
    let given = unsafe { std::slice::from_raw_parts(color.cast::<u32>(), lanes) };
    let mut color = [0; 4];
    color[..lanes].copy_from_slice(given);
    command!(q, events, CL_COMMAND_FILL_IMAGE => FillImage {
        image: m.id,
        color,
        origin,
        region,
    })
}
