//! Making, describing and releasing objects.

use super::cl;
use super::cl::make;
use super::describe;
use super::objects::{Object, Queue};
use super::prelude::*;
use crate::answer::Encoded;
use crate::memory::Use;
use crate::outbox::Outbox;

/// The longest data of one message.
const MOST_BLOB: u64 = 16 << 30;
/// The most data of several messages that may wait for them.
const MOST_BLOBS: usize = 256;

impl OpenCl {
    /// Stores what a creation gave; a failure stays with the id, for whoever uses it.
    pub fn keep(&mut self, id: u32, made: Result<Object, i32>) -> Result<(), Fail> {
        let op = self.record.op;
        let object = made.unwrap_or_else(|e| {
            self.outbox.error(e, |w| {
                w.u16(op);
                w.u32(0);
            });
            Object::Failed(e)
        });
        let old = self.objects.take(id);
        old.release(self.cl);
        match self.objects.put(id, object) {
            true => Ok(()),
            false => Err(Fail::Wire(WireError::BadValue("object id"))),
        }
    }

    pub fn describe(&mut self, _: wire::Describe) -> Result<Encoded, Fail> {
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes);
        w.u32(self.platforms.len() as u32);
        for (p, ids) in &self.platforms {
            describe::platform(self.cl, *p, &mut w);
            w.u32(ids.len() as u32);
            for id in ids {
                describe::device(self.cl, *id, self.objects.device(*id)?, &self.gate, &mut w);
            }
        }
        Ok(Encoded::of(&wire::DescribeReply { platforms: &bytes }))
    }

    pub fn device_info(&mut self, m: wire::DeviceInfo) -> Result<Encoded, Fail> {
        let value = describe::device_info(self.cl, self.objects.device(m.device)?, m.param)?;
        Ok(Encoded::of(&wire::DeviceInfoReply { value: &value }))
    }

    pub fn device_timer(&mut self, m: wire::DeviceTimer) -> Result<wire::DeviceTimerReply, Fail> {
        let device = self.objects.device(m.device)?;
        let (mut device_time, mut host_time) = (0, 0);
        // SAFETY: both places are ours.
        ok(unsafe {
            (self.cl.clGetDeviceAndHostTimer)(device, &raw mut device_time, &raw mut host_time)
        })?;
        Ok(wire::DeviceTimerReply {
            device_time,
            host_time,
        })
    }

    pub fn create_sub_devices(&mut self, m: wire::CreateSubDevices) -> Result<Encoded, Fail> {
        let device = self.objects.device(m.device)?;
        let mut properties: Vec<isize> = m.properties.iter().map(|p| *p as isize).collect();
        // Whatever the client left out, the list ends, and so does a list of counts in it.
        properties.extend([0, 0]);
        let (f, p, mut n) = (self.cl.clCreateSubDevices, properties.as_ptr(), 0);
        // SAFETY: asks only how many there would be.
        ok(unsafe { f(device, p, 0, null_mut(), &raw mut n) })?;
        let mut bytes = Vec::new();
        let mut w = Writer::new(&mut bytes);
        w.u32(n);
        if m.most > 0 {
            refuse_if(n > m.most, CL_INVALID_VALUE)?;
            let mut list = vec![null_mut(); n as usize];
            // SAFETY: the list has room for all of them.
            ok(unsafe { f(device, p, n, list.as_mut_ptr(), null_mut()) })?;
            w.u32(n);
            for (i, d) in list.into_iter().enumerate() {
                let id = m.first.wrapping_add(i as u32);
                describe::device(self.cl, id, d, &self.gate, &mut w);
                if !self.objects.put(id, Object::Device(d, true)) {
                    return Err(Fail::Wire(WireError::BadValue("object id")));
                }
            }
        }
        Ok(Encoded::of(&wire::CreateSubDevicesReply {
            devices: &bytes,
        }))
    }

    pub fn release(&mut self, m: wire::Release) -> Result<(), Fail> {
        if let Object::Queue(_) = self.objects.get(m.object) {
            self.mark();
        }
        let object = self.objects.take(m.object);
        if let Object::Queue(q) = &object
            && q.dirty
        {
            // SAFETY: a queue of ours.
            unsafe { (self.cl.clFlush)(q.raw) };
            self.dirty.retain(|id| *id != m.object);
        }
        object.release(self.cl);
        Ok(())
    }

    pub fn check(&mut self, m: wire::Check) -> Result<(), Fail> {
        match self.objects.get(m.object) {
            Object::None => Err(Fail::Code(CL_INVALID_VALUE)),
            Object::Failed(e) => Err(Fail::Code(*e)),
            _ => Ok(()),
        }
    }

    pub fn blob(&mut self, m: wire::Blob<'_>) -> Result<(), Fail> {
        if m.total > MOST_BLOB {
            return Err(Fail::Wire(WireError::TooLong {
                got: m.total,
                limit: MOST_BLOB,
            }));
        }
        // Data comes right before the message that takes it: little of it waits at any time.
        let waiting: u64 = self.blobs.values().map(|b| b.len() as u64).sum();
        let fresh = !self.blobs.contains_key(&m.blob);
        if waiting + m.data.len() as u64 > MOST_BLOB || (fresh && self.blobs.len() >= MOST_BLOBS) {
            return Err(Fail::Wire(WireError::BadValue(
                "data: too much waits to be used",
            )));
        }
        let blob = self.blobs.entry(m.blob).or_default();
        let left = m.total.checked_sub(m.offset);
        if m.offset != blob.len() as u64 || left.is_none_or(|n| m.data.len() as u64 > n) {
            return Err(Fail::Wire(WireError::BadValue("piece of data")));
        }
        // A client's word for what will come takes no memory by itself.
        let _ = match m.offset {
            0 => blob.try_reserve_exact(m.total.min(1 << 30) as usize),
            _ => Ok(()),
        };
        blob.extend_from_slice(m.data);
        Ok(())
    }

    pub fn create_context(&mut self, m: wire::CreateContext) -> Result<(), Fail> {
        let made = self.make_context(&m);
        self.keep(m.context, made)
    }

    fn make_context(&self, m: &wire::CreateContext) -> Result<Object, i32> {
        let ids = &m.devices;
        let devices = self.objects.devices(ids)?;
        let list: Vec<_> = devices.iter().map(|d| d.1).collect();
        let platform = self
            .platforms
            .iter()
            .find(|p| ids.iter().any(|i| p.1.contains(i)));
        let properties = platform
            .map(|p| [CL_CONTEXT_PLATFORM as isize, p.0 as isize, 0])
            .unwrap_or_default();
        // Nobody says when the library has made its last call, so what the callback needs is never
        // freed; few contexts have one.
        let (notify, user) = match m.notify {
            0 => (null(), null_mut()),
            _ => {
                let listener = Box::leak(Box::new((self.outbox.clone(), m.context)));
                (
                    noticed as *const c_void,
                    std::ptr::from_mut(listener).cast(),
                )
            }
        };
        let f = self.cl.clCreateContext;
        let (p, n, list) = (properties.as_ptr(), list.len() as u32, list.as_ptr());
        // SAFETY: lists of ours with the lengths given; the callback's argument lives for ever.
        let c = make(|code| unsafe { f(p, n, list, notify, user, code) })?;
        Ok(Object::Context(c, devices))
    }

    pub fn image_formats(&mut self, m: wire::ImageFormats) -> Result<Encoded, Fail> {
        let c = self.objects.context(m.context)?;
        let f = self.cl.clGetSupportedImageFormats;
        let mut n = 0;
        // SAFETY: first the count, then a list of that length.
        let list = unsafe {
            ok(f(c, m.flags, m.kind, 0, null_mut(), &raw mut n))?;
            let mut list = vec![
                ImageFormat {
                    order: 0,
                    data_type: 0
                };
                n as usize
            ];
            if n > 0 {
                ok(f(c, m.flags, m.kind, n, list.as_mut_ptr(), null_mut()))?;
            }
            list
        };
        let bytes: Vec<u8> = list
            .iter()
            .flat_map(|f| [f.order.to_ne_bytes(), f.data_type.to_ne_bytes()].concat())
            .collect();
        Ok(Encoded::of(&wire::ImageFormatsReply { formats: &bytes }))
    }

    pub fn create_queue(&mut self, m: wire::CreateQueue) -> Result<(), Fail> {
        let made = self.make_queue(&m);
        self.keep(m.queue, made)
    }

    fn make_queue(&self, m: &wire::CreateQueue) -> Result<Object, i32> {
        let (c, d) = (
            self.objects.context(m.context)?,
            self.objects.device(m.device)?,
        );
        let mut code = CL_INVALID_OPERATION;
        let simple = match m.properties[..] {
            [] => Some(0),
            [key, p, 0] if key == u64::from(CL_QUEUE_PROPERTIES) && p <= 3 => Some(p),
            _ => None,
        };
        // SAFETY: objects of ours; the list ends in a zero.
        let q = unsafe {
            match simple {
                Some(p) => (self.cl.clCreateCommandQueue)(c, d, p, &raw mut code),
                None => {
                    let mut list = m.properties.clone();
                    list.push(0);
                    let f = self.cl.clCreateCommandQueueWithProperties;
                    f(c, d, list.as_ptr(), &raw mut code)
                }
            }
        };
        let has = |bit| {
            let mut list = m.properties.chunks_exact(2);
            list.any(|p| p[0] == u64::from(CL_QUEUE_PROPERTIES) && p[1] & bit != 0)
        };
        ok(code)?;
        // The session's devices have the first ids. Of a part of one, the last is taken: who has
        // several devices and parts of them is rare.
        let devices: usize = self.platforms.iter().map(|(_, ids)| ids.len()).sum();
        let place = (m.device as usize).clamp(1, devices) - 1;
        self.turn.come(place);
        if !describe::is_processor(self.cl, d) {
            self.completer.probe().look_from_now();
        }
        Ok(Object::Queue(Queue {
            raw: q,
            context: c,
            place,
            loose: has(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE),
            timed: has(CL_QUEUE_PROFILING_ENABLE),
            dirty: false,
        }))
    }

    pub fn create_buffer(&mut self, m: wire::CreateBuffer<'_>) -> Result<(), Fail> {
        let data = self.data(m.blob, m.data)?;
        let made = self.make_buffer(&m, data.bytes());
        self.keep(m.buffer, made)
    }

    fn make_buffer(&self, m: &wire::CreateBuffer<'_>, data: &[u8]) -> Result<Object, i32> {
        let c = self.objects.context(m.context)?;
        let copies = m.flags & CL_MEM_COPY_HOST_PTR != 0;
        refuse_if(copies && data.len() as u64 != m.size, CL_INVALID_HOST_PTR)?;
        let host = if m.svm != 0 {
            self.svm_range(m.svm, m.size)?
        } else if m.flags & CL_MEM_USE_HOST_PTR != 0 {
            return Err(CL_INVALID_VALUE);
        } else if copies {
            data.as_ptr().cast_mut().cast()
        } else {
            null_mut()
        };
        let charge = self.charge(Use::Buffer, m.size)?;
        let f = self.cl.clCreateBuffer;
        // SAFETY: `host` has `size` bytes if it is not null: checked above.
        let b = make(|code| unsafe { f(c, m.flags, m.size as usize, host, code) })?;
        Ok(Object::Memory(b, Some(charge)))
    }

    pub fn create_sub_buffer(&mut self, m: wire::CreateSubBuffer) -> Result<(), Fail> {
        let made = self.objects.memory(m.parent).and_then(|parent| {
            let region = BufferRegion {
                origin: m.origin as usize,
                size: m.size as usize,
            };
            let (f, kind) = (self.cl.clCreateSubBuffer, CL_BUFFER_CREATE_TYPE_REGION);
            // SAFETY: a buffer of ours; the region is checked by the library.
            let b =
                make(|code| unsafe { f(parent, m.flags, kind, (&raw const region).cast(), code) })?;
            Ok(Object::Memory(b, None))
        });
        self.keep(m.buffer, made)
    }

    pub fn create_image(&mut self, m: wire::CreateImage<'_>) -> Result<(), Fail> {
        let data = self.data(m.blob, m.data)?;
        let made = self.make_image(&m, data.bytes());
        self.keep(m.image, made)
    }

    fn make_image(&self, m: &wire::CreateImage<'_>, data: &[u8]) -> Result<Object, i32> {
        let c = self.objects.context(m.context)?;
        let parent = match m.parent {
            0 => null_mut(),
            id => self.objects.memory(id)?,
        };
        let s = m.shape.map(|v| v as usize);
        let format = ImageFormat {
            order: m.format[0],
            data_type: m.format[1],
        };
        let desc = ImageDesc {
            kind: m.kind,
            width: s[0],
            height: s[1],
            depth: s[2],
            array_size: s[3],
            row_pitch: s[4],
            slice_pitch: s[5],
            levels: s[6] as u32,
            samples: s[7] as u32,
            parent,
        };
        let copies = m.flags & CL_MEM_COPY_HOST_PTR != 0;
        let mut flags = m.flags & !CL_MEM_COPY_HOST_PTR;
        let f = self.cl.clCreateImage;
        let (form, shape) = (&raw const format, &raw const desc);
        let mut host = null_mut();
        if copies {
            // The library reads a whole image's worth of bytes, so an empty one of the same shape
            // says first how many those are.
            // SAFETY: no host memory is involved.
            let probe = make(|code| unsafe { f(c, flags, form, shape, null_mut(), code) })?;
            let wanted = self.image_bytes(probe, &desc);
            // SAFETY: made just now.
            unsafe { (self.cl.clReleaseMemObject)(probe) };
            refuse_if(wanted.is_none_or(|n| n > data.len()), CL_INVALID_HOST_PTR)?;
            flags |= CL_MEM_COPY_HOST_PTR;
            host = data.as_ptr().cast_mut().cast();
        }
        // SAFETY: `host` is null or has as many bytes as the image, checked above.
        let i = make(|code| unsafe { f(c, flags, form, shape, host, code) })?;
        // Only the library knows how long a pixel is. What has a parent lies in that.
        let bytes = if m.parent == 0 {
            self.image_bytes(i, &desc)
        } else {
            None
        };
        let charge = bytes.map(|n| self.charge(Use::Image, n as u64)).transpose();
        // SAFETY: made just now.
        let charge = charge.inspect_err(|_| _ = unsafe { (self.cl.clReleaseMemObject)(i) })?;
        Ok(Object::Memory(i, charge))
    }

    /// Bytes of an image's pixels without gaps.
    fn image_bytes(&self, image: Handle, d: &ImageDesc) -> Option<usize> {
        let element = self.element_size(image)?;
        let (rows, slices) = match d.kind {
            CL_MEM_OBJECT_IMAGE1D | CL_MEM_OBJECT_IMAGE1D_BUFFER => (1, 1),
            CL_MEM_OBJECT_IMAGE2D => (d.height, 1),
            CL_MEM_OBJECT_IMAGE3D => (d.height, d.depth),
            CL_MEM_OBJECT_IMAGE1D_ARRAY => (1, d.array_size),
            _ => (d.height, d.array_size),
        };
        d.width
            .checked_mul(element)?
            .checked_mul(rows)?
            .checked_mul(slices)
    }

    /// Bytes of a pixel.
    pub fn element_size(&self, image: Handle) -> Option<usize> {
        let mut n = 0usize;
        // SAFETY: an image of ours; the place is ours.
        let code = unsafe {
            let place = (&raw mut n).cast();
            (self.cl.clGetImageInfo)(image, CL_IMAGE_ELEMENT_SIZE, 8, place, null_mut())
        };
        ok(code).ok().map(|()| n)
    }

    pub fn image_info(&mut self, m: wire::ImageInfo) -> Result<Encoded, Fail> {
        let image = self.objects.memory(m.image)?;
        let mut bytes = Vec::new();
        describe::image(self.cl, image, &mut Writer::new(&mut bytes));
        Ok(Encoded::of(&wire::ImageInfoReply { table: &bytes }))
    }
}

/// The most private bytes of a notice that are passed on.
const MOST_PRIVATE: usize = 64 << 10;

/// The library has something to say to a context's error callback.
extern "C" fn noticed(text: *const c_char, info: *const c_void, size: usize, user: *mut c_void) {
    // SAFETY: what `make_context` has left there for good.
    let (outbox, context) = unsafe { &*user.cast::<(Outbox, u32)>() };
    // SAFETY: the library's text, and as many bytes as it says.
    let (text, info) = unsafe {
        let info = match info.is_null() {
            true => &[][..],
            false => std::slice::from_raw_parts(info.cast::<u8>(), size.min(MOST_PRIVATE)),
        };
        (cl::text(text), info)
    };
    outbox.callback(*context, CL_SUCCESS, |w| {
        w.str(&text);
        w.bytes(info);
    });
}
