//! Images: creation, queries, reads, writes and maps. Pixels travel without gaps;
//! rows and slices are spread out or packed on the client.

use super::context::Context;
use super::entry::{self, Plain, Result};
use super::event::{self, Out};
use super::map::{self, Mapping};
use super::memory::{self, Memory};
use super::object::{Object, get};
use super::platform::{self, Table};
use super::queue::Queue;
use super::server::{LOST, decode};
use super::transfer;
use busbar_abi::opencl::*;
use busbar_wire::Reader;
use busbar_wire::generated::opencl as wire;
use std::borrow::Cow;
use std::sync::Arc;

/// What images have in addition to other memory.
pub struct Image {
    pub(super) format: ImageFormat,
    desc: ImageDesc,
    table: Table,
    /// Bytes of a pixel.
    element: usize,
}

// SAFETY: the description's handle is only handed back to the program.
unsafe impl Send for Image {}
// SAFETY: as above.
unsafe impl Sync for Image {}

/// Rows and slices of a box of bytes in memory.
#[derive(Clone, Copy)]
pub struct Layout {
    /// Bytes of a row.
    pub row: usize,
    /// Rows of a slice.
    pub rows: usize,
    /// Slices.
    pub slices: usize,
    /// Bytes from row to row.
    pub row_pitch: usize,
    /// Bytes from slice to slice.
    pub slice_pitch: usize,
}

impl Layout {
    /// Bytes without gaps.
    pub fn packed(&self) -> usize {
        self.row * self.rows * self.slices
    }

    /// Whether there are no gaps.
    pub fn tight(&self) -> bool {
        (self.row_pitch == self.row || self.rows * self.slices == 1)
            && (self.slice_pitch == self.row * self.rows || self.slices == 1)
    }

    fn starts(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.slices).flat_map(move |z| {
            (0..self.rows).map(move |y| z * self.slice_pitch + y * self.row_pitch)
        })
    }

    /// Its bytes without gaps: where they are, if there are none.
    ///
    /// # Safety
    /// The box at `from` is readable, for as long as the result is used.
    pub unsafe fn gather<'a>(&self, from: *const u8) -> Cow<'a, [u8]> {
        if self.tight() {
            // SAFETY: passed on to the caller.
            return Cow::Borrowed(unsafe { std::slice::from_raw_parts(from, self.packed()) });
        }
        let mut v = Vec::with_capacity(self.packed());
        for at in self.starts() {
            // SAFETY: passed on to the caller.
            v.extend_from_slice(unsafe { std::slice::from_raw_parts(from.add(at), self.row) });
        }
        Cow::Owned(v)
    }

    /// Puts the gaps in.
    ///
    /// # Safety
    /// The box at `to` is writable.
    pub unsafe fn scatter(&self, packed: &[u8], to: *mut u8) {
        for (row, at) in packed.chunks_exact(self.row.max(1)).zip(self.starts()) {
            // SAFETY: passed on to the caller.
            unsafe { std::ptr::copy_nonoverlapping(row.as_ptr(), to.add(at), row.len()) };
        }
    }
}

/// How many of origin's and region's numbers count pixels, rows or slices for a kind of image.
fn dims(kind: u32) -> usize {
    match kind {
        CL_MEM_OBJECT_IMAGE1D | CL_MEM_OBJECT_IMAGE1D_BUFFER => 1,
        CL_MEM_OBJECT_IMAGE2D | CL_MEM_OBJECT_IMAGE1D_ARRAY => 2,
        _ => 3,
    }
}

/// Bytes of a pixel.
fn element_size(f: &ImageFormat) -> Option<usize> {
    let channels = match f.order {
        CL_R | CL_A | CL_INTENSITY | CL_LUMINANCE | CL_DEPTH | CL_RX => 1,
        CL_RG | CL_RA | CL_RGX => 2,
        CL_RGB | CL_RGBX | CL_S_RGB | CL_S_RGBX => 3,
        CL_RGBA | CL_BGRA | CL_ARGB | CL_ABGR | CL_S_RGBA | CL_S_BGRA => 4,
        _ => return None,
    };
    Some(match f.data_type {
        CL_SNORM_INT8 | CL_UNORM_INT8 | CL_SIGNED_INT8 | CL_UNSIGNED_INT8 => channels,
        CL_SNORM_INT16 | CL_UNORM_INT16 | CL_SIGNED_INT16 | CL_UNSIGNED_INT16 | CL_HALF_FLOAT => {
            2 * channels
        }
        CL_SIGNED_INT32 | CL_UNSIGNED_INT32 | CL_FLOAT => 4 * channels,
        CL_UNORM_SHORT_565 | CL_UNORM_SHORT_555 => 2,
        CL_UNORM_INT_101010 | CL_UNORM_INT_101010_2 => 4,
        _ => return None,
    })
}

/// The description without the sizes that a kind of image has not: a program need not set them.
fn relevant(mut d: ImageDesc) -> ImageDesc {
    let array = [CL_MEM_OBJECT_IMAGE1D_ARRAY, CL_MEM_OBJECT_IMAGE2D_ARRAY].contains(&d.kind);
    if dims(d.kind) == 1 || d.kind == CL_MEM_OBJECT_IMAGE1D_ARRAY {
        d.height = 0;
    }
    if d.kind != CL_MEM_OBJECT_IMAGE3D {
        d.depth = 0;
    }
    if !array {
        d.array_size = 0;
    }
    d
}

/// Rows and slices of the host's data for a whole image.
fn host_layout(d: &ImageDesc, element: usize) -> Layout {
    let row = d.width * element;
    let (rows, slices) = match d.kind {
        CL_MEM_OBJECT_IMAGE1D | CL_MEM_OBJECT_IMAGE1D_BUFFER => (1, 1),
        CL_MEM_OBJECT_IMAGE2D => (d.height, 1),
        CL_MEM_OBJECT_IMAGE3D => (d.height, d.depth),
        CL_MEM_OBJECT_IMAGE1D_ARRAY => (1, d.array_size),
        _ => (d.height, d.array_size),
    };
    let row_pitch = if d.row_pitch == 0 { row } else { d.row_pitch };
    let slice_pitch = if d.slice_pitch == 0 {
        row_pitch * rows
    } else {
        d.slice_pitch
    };
    Layout {
        row,
        rows,
        slices,
        row_pitch,
        slice_pitch,
    }
}

/// An image as the program asks for it, checked as far as that goes without the device.
struct Wanted<'a> {
    format: ImageFormat,
    desc: ImageDesc,
    /// Bytes of a pixel.
    element: usize,
    /// Of the data that the program gives.
    layout: Layout,
    /// The memory that it is an image of.
    parent: Option<&'a Object<Memory>>,
}

impl<'a> Wanted<'a> {
    fn check(
        c: &Context,
        flags: u64,
        format: *const ImageFormat,
        desc: *const ImageDesc,
        host: Handle,
    ) -> Result<Self> {
        if format.is_null() {
            return Err(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR);
        }
        if desc.is_null() {
            return Err(CL_INVALID_IMAGE_DESCRIPTOR);
        }
        // SAFETY: checked for null; the program's structures.
        let (format, desc) = unsafe { (format.read(), relevant(desc.read())) };
        let element = element_size(&format).ok_or(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR)?;
        if !c.any(|d| d.number(CL_DEVICE_IMAGE_SUPPORT) != 0) {
            return Err(CL_INVALID_OPERATION);
        }
        if !(CL_MEM_OBJECT_IMAGE2D..=CL_MEM_OBJECT_IMAGE1D_BUFFER).contains(&desc.kind)
            || desc.levels != 0
            || desc.samples != 0
            || host.is_null() && desc.parent.is_null() && desc.row_pitch | desc.slice_pitch != 0
        {
            return Err(CL_INVALID_IMAGE_DESCRIPTOR);
        }
        let parent = if desc.parent.is_null() {
            memory::check_flags(flags, host)?;
            None
        } else {
            // SAFETY: the program's handle.
            let parent = unsafe { get::<Memory>(desc.parent) };
            let parent = parent.map_err(|_| CL_INVALID_IMAGE_DESCRIPTOR)?;
            if !host.is_null() {
                return Err(CL_INVALID_HOST_PTR);
            }
            Some(parent)
        };
        let sizes = [desc.width, desc.height, desc.depth, desc.array_size];
        if sizes.iter().any(|s| *s > 1 << 32) {
            return Err(CL_INVALID_IMAGE_SIZE);
        }
        let layout = host_layout(&desc, element);
        if layout.row_pitch < layout.row
            || layout.slices > 1 && layout.slice_pitch < layout.row_pitch * layout.rows
        {
            return Err(CL_INVALID_IMAGE_DESCRIPTOR);
        }
        Ok(Self {
            format,
            desc,
            element,
            layout,
            parent,
        })
    }

    /// Sizes as they travel. The pitches are those of the parent's data; what the program gives
    /// travels without gaps.
    fn shape(&self) -> [u64; 8] {
        let d = &self.desc;
        let (row_pitch, slice_pitch) = match self.parent {
            Some(_) => (d.row_pitch, d.slice_pitch),
            None => (0, 0),
        };
        [
            d.width,
            d.height,
            d.depth,
            d.array_size,
            row_pitch,
            slice_pitch,
            0,
            0,
        ]
        .map(|v| v as u64)
    }
}

fn create(
    context: Handle,
    properties: Vec<u64>,
    flags: u64,
    format: *const ImageFormat,
    desc: *const ImageDesc,
    host: Handle,
) -> Result<Handle> {
    // SAFETY: the program's handle.
    let c = unsafe { get::<Context>(context)? };
    if properties.first().is_some_and(|p| *p != 0) {
        return Err(CL_INVALID_PROPERTY);
    }
    let wanted = Wanted::check(c, flags, format, desc, host)?;
    let (layout, parent) = (wanted.layout, wanted.parent);
    let contents = if host.is_null() {
        Cow::Borrowed(&[][..])
    } else {
        // SAFETY: the program says that there is a whole image.
        unsafe { layout.gather(host.cast()) }
    };
    let id = c.server.id();
    c.server.send(&contents, |blob, data| wire::CreateImage {
        image: id,
        context: c.id,
        flags: memory::sent_flags(flags),
        format: [wanted.format.order, wanted.format.data_type],
        kind: wanted.desc.kind,
        shape: wanted.shape(),
        parent: parent.map_or(0, |p| p.id),
        blob,
        data,
    })?;
    let mut all = flags;
    if let Some(p) = parent {
        all |= p.flags & (CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR);
    }
    let mut body = Memory::new(c, wanted.desc.kind, all, 0, host, properties);
    body.parent = parent.map(|p| (p.keep(), 0));
    // The object exists, whatever the answer is, and dropping it tells the worker.
    let (table, failed) = match facts(c, id) {
        Ok(table) => (table, None),
        Err(e) => (Table::new(), Some(e)),
    };
    let size = table.get(&CL_MEM_SIZE).and_then(|v| v.first_chunk::<8>());
    // What is mapped of it has this size: it holds the pixels, whatever the server says.
    let told = size.map_or(0, |b| usize::from_le_bytes(*b));
    body.size = told.max(layout.packed());
    if !host.is_null() && flags & CL_MEM_USE_HOST_PTR != 0 {
        body.size = layout.slice_pitch * layout.slices;
    }
    body.image = Some(Image {
        format: wanted.format,
        desc: wanted.desc,
        table,
        element: wanted.element,
    });
    let object = Object::new(c.server, id, body);
    match failed {
        Some(e) => Err(e),
        None => Ok(object.give()),
    }
}

/// What the device says of a new image.
fn facts(c: &Object<Context>, image: u32) -> Result<Table> {
    let answer = c.server.call(&wire::ImageInfo { image })?;
    let reply: wire::ImageInfoReply = decode(&answer)?;
    platform::table(&mut Reader::new(reply.table)).map_err(|_| LOST)
}

/// `clCreateImage`.
pub unsafe extern "C" fn create_image(
    context: Handle,
    flags: u64,
    format: *const ImageFormat,
    desc: *const ImageDesc,
    host: Handle,
    code: *mut i32,
) -> Handle {
    // SAFETY: null or the program's.
    unsafe {
        entry::object(code, || {
            create(context, Vec::new(), flags, format, desc, host)
        })
    }
}

/// `clCreateImageWithProperties`.
pub unsafe extern "C" fn create_image_with_properties(
    context: Handle,
    properties: *const u64,
    flags: u64,
    format: *const ImageFormat,
    desc: *const ImageDesc,
    host: Handle,
    code: *mut i32,
) -> Handle {
    let make = || {
        // SAFETY: the program's list.
        let properties = unsafe { entry::properties(properties)? };
        create(context, properties, flags, format, desc, host)
    };
    // SAFETY: null or the program's.
    unsafe { entry::object(code, make) }
}

fn plain_desc(kind: u32, size: [usize; 3], pitch: [usize; 2]) -> ImageDesc {
    ImageDesc {
        kind,
        width: size[0],
        height: size[1],
        depth: size[2],
        array_size: 0,
        row_pitch: pitch[0],
        slice_pitch: pitch[1],
        levels: 0,
        samples: 0,
        parent: std::ptr::null_mut(),
    }
}

/// `clCreateImage2D`.
pub unsafe extern "C" fn create_image_2d(
    context: Handle,
    flags: u64,
    format: *const ImageFormat,
    width: usize,
    height: usize,
    row_pitch: usize,
    host: Handle,
    code: *mut i32,
) -> Handle {
    let desc = plain_desc(CL_MEM_OBJECT_IMAGE2D, [width, height, 0], [row_pitch, 0]);
    // SAFETY: null or the program's.
    unsafe {
        entry::object(code, || {
            create(context, Vec::new(), flags, format, &raw const desc, host)
        })
    }
}

/// `clCreateImage3D`.
pub unsafe extern "C" fn create_image_3d(
    context: Handle,
    flags: u64,
    format: *const ImageFormat,
    width: usize,
    height: usize,
    depth: usize,
    row_pitch: usize,
    slice_pitch: usize,
    host: Handle,
    code: *mut i32,
) -> Handle {
    let pitch = [row_pitch, slice_pitch];
    let desc = plain_desc(CL_MEM_OBJECT_IMAGE3D, [width, height, depth], pitch);
    // SAFETY: null or the program's.
    unsafe {
        entry::object(code, || {
            create(context, Vec::new(), flags, format, &raw const desc, host)
        })
    }
}

/// An image among the program's handles, in the right context.
///
/// # Safety
/// The program's handle.
pub(super) unsafe fn image<'a>(
    c: &Object<Context>,
    h: Handle,
) -> Result<(&'a Object<Memory>, &'a Image)> {
    // SAFETY: passed on to the caller.
    let m = unsafe { get::<Memory>(h)? };
    let i = m.image.as_ref().ok_or(CL_INVALID_MEM_OBJECT)?;
    if !Arc::ptr_eq(&m.context, &c.keep()) {
        return Err(CL_INVALID_CONTEXT);
    }
    Ok((m, i))
}

/// The whole size of an image, as a region.
fn whole(i: &Image) -> [u64; 3] {
    let d = &i.desc;
    let v = match d.kind {
        CL_MEM_OBJECT_IMAGE1D | CL_MEM_OBJECT_IMAGE1D_BUFFER => [d.width, 1, 1],
        CL_MEM_OBJECT_IMAGE2D => [d.width, d.height, 1],
        CL_MEM_OBJECT_IMAGE3D => [d.width, d.height, d.depth],
        CL_MEM_OBJECT_IMAGE1D_ARRAY => [d.width, d.array_size, 1],
        _ => [d.width, d.height, d.array_size],
    };
    v.map(|x| x as u64)
}

pub(super) fn check_area(i: &Image, origin: &[u64; 3], region: &[u64; 3]) -> Result<()> {
    let whole = whole(i);
    let n = dims(i.desc.kind);
    let outside = (0..3).any(|x| match origin[x].checked_add(region[x]) {
        Some(end) => end > whole[x] || region[x] == 0,
        None => true,
    });
    let stray = (n..3).any(|x| origin[x] != 0 || region[x] != 1);
    match outside || stray {
        true => Err(CL_INVALID_VALUE),
        false => Ok(()),
    }
}

/// The host's box for a region, with given pitches (0 for none).
pub(super) fn area_layout(
    i: &Image,
    region: &[u64; 3],
    row_pitch: usize,
    slice_pitch: usize,
) -> Result<Layout> {
    let row = region[0] as usize * i.element;
    let array = i.desc.kind == CL_MEM_OBJECT_IMAGE1D_ARRAY;
    // The rows of a 1D array are its slices.
    let (rows, slices) = match array {
        true => (1, region[1] as usize),
        false => (region[1] as usize, region[2] as usize),
    };
    let row_pitch = if row_pitch == 0 { row } else { row_pitch };
    let given = slice_pitch != 0;
    let slice_pitch = if given { slice_pitch } else { row_pitch * rows };
    let flat = dims(i.desc.kind) < 3 && !array;
    if row_pitch < row || slice_pitch < row_pitch * rows || given && flat {
        return Err(CL_INVALID_VALUE);
    }
    Ok(Layout {
        row,
        rows,
        slices,
        row_pitch,
        slice_pitch,
    })
}

/// A pointer that a thread of ours scatters to.
struct Target(*mut u8);

// SAFETY: the program lends the memory until the command has run.
unsafe impl Send for Target {}

impl Target {
    fn get(&self) -> *mut u8 {
        self.0
    }
}

/// `clEnqueueReadImage`.
pub unsafe extern "C" fn enqueue_read_image(
    queue: Handle,
    memory: Handle,
    blocking: u32,
    origin: *const usize,
    region: *const usize,
    row_pitch: usize,
    slice_pitch: usize,
    to: Handle,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles, lists and memory, here and below.
    entry::status(|| unsafe {
        let q = get::<Queue>(queue)?;
        let (m, i) = image(&q.context, memory)?;
        let (origin, region) = (entry::three(origin)?, entry::three(region)?);
        check_area(i, &origin, &region)?;
        let layout = area_layout(i, &region, row_pitch, slice_pitch)?;
        if to.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        m.host_may(false)?;
        let waits = event::waits(&q.context, n, list)?;
        let mut out = Out::new(q, CL_COMMAND_READ_IMAGE, out);
        let msg = wire::ReadImage {
            queue: q.id,
            image: m.id,
            event: out.id(),
            waits,
            origin,
            region,
            bytes: layout.packed() as u64,
        };
        read_box(q, m, blocking != 0, &msg, layout, to.cast())?;
        if blocking != 0 {
            out.complete();
        }
        out.give();
        Ok(())
    })
}

/// Sends a read of a box and spreads what comes over the host's rows.
///
/// # Safety
/// The box at `to` is writable until the command has run.
pub unsafe fn read_box<'a, R: busbar_wire::codec::Request<'a>>(
    q: &Object<Queue>,
    m: &Object<Memory>,
    blocking: bool,
    msg: &R,
    layout: Layout,
    to: *mut u8,
) -> Result<()> {
    if layout.tight() {
        // SAFETY: passed on to the caller.
        return unsafe { map::fetch(q, m, blocking, msg, (to, layout.packed()), || {}) };
    }
    let mut packed = vec![0u8; layout.packed()];
    let place = (packed.as_mut_ptr(), packed.len());
    let target = Target(to);
    // SAFETY: passed on to the caller; `packed` moves into the closure, its bytes stay in place.
    unsafe {
        map::fetch(q, m, blocking, msg, place, move || {
            layout.scatter(&packed, target.get())
        })
    }
}

/// `clEnqueueWriteImage`.
pub unsafe extern "C" fn enqueue_write_image(
    queue: Handle,
    memory: Handle,
    blocking: u32,
    origin: *const usize,
    region: *const usize,
    row_pitch: usize,
    slice_pitch: usize,
    from: Handle,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles, lists and memory, here and below.
    entry::status(|| unsafe {
        let q = get::<Queue>(queue)?;
        let (m, i) = image(&q.context, memory)?;
        let (origin, region) = (entry::three(origin)?, entry::three(region)?);
        check_area(i, &origin, &region)?;
        let layout = area_layout(i, &region, row_pitch, slice_pitch)?;
        if from.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        m.host_may(true)?;
        let waits = event::waits(&q.context, n, list)?;
        let out = Out::new(q, CL_COMMAND_WRITE_IMAGE, out);
        let free = waits.is_empty();
        let (from, area) = ((layout, from.cast::<u8>().cast_const()), (origin, region));
        write(q, m, from, false, area, out.id(), waits)?;
        transfer::written(q, blocking != 0, free, out)
    })
}

/// Queues a write of pixels from a box in memory.
///
/// # Safety
/// The box at `from` is readable, and stays as it is until the command has run, unless `copy`.
unsafe fn write(
    q: &Object<Queue>,
    m: &Object<Memory>,
    (layout, from): (Layout, *const u8),
    copy: bool,
    area: ([u64; 3], [u64; 3]),
    event: u32,
    waits: Vec<u32>,
) -> Result<()> {
    // SAFETY: passed on to the caller; what was gathered is copied.
    unsafe {
        let packed = layout.gather(from);
        let copy = copy || matches!(packed, Cow::Owned(_));
        transfer::put_box(q, &packed, copy, area, (event, waits), |p| {
            wire::WriteImage {
                queue: q.id,
                image: m.id,
                event: p.event,
                waits: p.waits,
                origin: p.origin,
                region: p.region,
                blob: p.blob,
                data: p.data,
            }
        })
    }
}

/// The box of a whole image where the program maps it, and where in it a region begins.
fn mapped(m: &Memory, i: &Image, origin: &[u64; 3]) -> (Layout, usize) {
    let mut desc = i.desc;
    if m.host == 0 {
        // Of our own making, so without gaps.
        (desc.row_pitch, desc.slice_pitch) = (0, 0);
    }
    let l = host_layout(&desc, i.element);
    let array = desc.kind == CL_MEM_OBJECT_IMAGE1D_ARRAY;
    let (y, z) = if array {
        (0, origin[1])
    } else {
        (origin[1], origin[2])
    };
    let at = origin[0] as usize * i.element + y as usize * l.row_pitch + z as usize * l.slice_pitch;
    (l, at)
}

/// `clEnqueueMapImage`.
pub unsafe extern "C" fn enqueue_map_image(
    queue: Handle,
    memory: Handle,
    blocking: u32,
    flags: u64,
    origin: *const usize,
    region: *const usize,
    row_pitch: *mut usize,
    slice_pitch: *mut usize,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
    code: *mut i32,
) -> Handle {
    // SAFETY: the program's handles and lists, here and below.
    let make = || unsafe {
        let q = get::<Queue>(queue)?;
        let (m, i) = image(&q.context, memory)?;
        let (origin, region) = (entry::three(origin)?, entry::three(region)?);
        check_area(i, &origin, &region)?;
        let layered = dims(i.desc.kind) == 3 || i.desc.kind == CL_MEM_OBJECT_IMAGE1D_ARRAY;
        if row_pitch.is_null() || layered && slice_pitch.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        let fetches = map::check_flags(m, flags)?;
        let waits = event::waits(&q.context, n, list)?;
        let (all, offset) = mapped(m, i, &origin);
        let base = match m.host {
            0 => m.maps.shadow(all.slice_pitch * all.slices)?,
            host => host,
        };
        let at = base + offset;
        let mut out = Out::new(q, CL_COMMAND_MAP_IMAGE, out);
        if fetches {
            let layout = area_layout(i, &region, all.row_pitch, 0)?;
            let layout = Layout {
                slice_pitch: all.slice_pitch,
                ..layout
            };
            let msg = wire::ReadImage {
                queue: q.id,
                image: m.id,
                event: out.id(),
                waits,
                origin,
                region,
                bytes: layout.packed() as u64,
            };
            read_box(q, m, blocking != 0, &msg, layout, at as *mut u8)?;
        } else {
            map::nothing(q, blocking != 0, waits, &mut out)?;
        }
        if blocking != 0 {
            out.complete();
        }
        row_pitch.write(all.row_pitch);
        if layered {
            slice_pitch.write(all.slice_pitch);
        } else {
            entry::put(slice_pitch, 0);
        }
        m.maps.add(Mapping {
            at,
            flags,
            range: (0, 0),
            area: (origin, region),
        });
        out.give();
        Ok(at as Handle)
    };
    // SAFETY: null or the program's.
    unsafe { entry::object(code, make) }
}

/// Sends a mapped region of an image back.
pub fn unmap(
    q: &Object<Queue>,
    m: &Object<Memory>,
    map: &Mapping,
    event: u32,
    waits: Vec<u32>,
) -> Result<()> {
    let i = m.image.as_ref().ok_or(CL_INVALID_MEM_OBJECT)?;
    let (all, _) = mapped(m, i, &map.area.0);
    let layout = area_layout(i, &map.area.1, all.row_pitch, 0)?;
    let layout = Layout {
        slice_pitch: all.slice_pitch,
        ..layout
    };
    let from = (layout, map.at as *const u8);
    // Copied, since the program may map and write the same place again at once.
    // SAFETY: the region was mapped at this place.
    unsafe { write(q, m, from, true, map.area, event, waits) }
}

/// `clGetImageInfo`.
pub unsafe extern "C" fn get_image_info(
    memory: Handle,
    param: u32,
    size: usize,
    value: Handle,
    ret: *mut usize,
) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let m = unsafe { get::<Memory>(memory)? };
        let i = m.image.as_ref().ok_or(CL_INVALID_MEM_OBJECT)?;
        let bytes = match param {
            CL_IMAGE_FORMAT => [i.format.order, i.format.data_type].plain(),
            CL_IMAGE_ELEMENT_SIZE => i.element.plain(),
            CL_IMAGE_BUFFER => match &m.parent {
                Some((p, _)) if p.kind == CL_MEM_OBJECT_BUFFER => p.handle().plain(),
                _ => 0usize.plain(),
            },
            CL_IMAGE_ROW_PITCH | CL_IMAGE_SLICE_PITCH if m.host != 0 => {
                let l = host_layout(&i.desc, i.element);
                match param {
                    CL_IMAGE_ROW_PITCH => l.row_pitch.plain(),
                    _ if l.slices == 1 && dims(m.kind) < 3 => 0usize.plain(),
                    _ => l.slice_pitch.plain(),
                }
            }
            _ => i.table.get(&param).cloned().ok_or(CL_INVALID_VALUE)?,
        };
        // SAFETY: the program's memory, as it says.
        unsafe { entry::answer(&bytes, size, value, ret) }
    })
}
