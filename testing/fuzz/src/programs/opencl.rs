//! OpenCL, but for code of the program's own: a CPU's device runs that in the worker itself, where
//! whatever it does is the program's business.

use busbar_abi::opencl::{Handle, ImageDesc, ImageFormat};
use busbar_client::opencl::generated::*;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

static TOLD: AtomicU32 = AtomicU32::new(0);

extern "C" fn told(_: Handle, _: i32, _: *mut c_void) {
    TOLD.fetch_add(1, Ordering::Relaxed);
}

/// What the calls of a program work with.
pub struct World {
    device: Handle,
    context: Handle,
    queue: Handle,
    buffer: Handle,
}

const SIZE: usize = 16 << 10;

/// A family's calls.
pub type Family = unsafe fn(&World);

/// All families.
pub const ALL: [(&str, Family); 5] = [
    ("buffers", buffers),
    ("events", events),
    ("images", images),
    ("maps", maps),
    ("shared", shared),
];

/// Runs these families.
pub fn run(families: &[(&str, Family)]) {
    // SAFETY: the calls are given memory of this program's, as long as they are told, for as long
    // as they need it.
    unsafe {
        let (mut platform, mut device) = (null_mut(), null_mut());
        platform::clGetPlatformIDs(1, &mut platform, null_mut());
        device::clGetDeviceIDs(platform, u64::from(u32::MAX), 1, &mut device, null_mut());
        let e = null_mut();
        let context = context::clCreateContext(null(), 1, &device, null(), null_mut(), e);
        let w = World {
            device,
            context,
            queue: queue::clCreateCommandQueue(context, device, 2, e),
            buffer: memory::clCreateBuffer(context, 1, SIZE, null_mut(), e),
        };
        for (_, family) in families {
            family(&w);
        }
        queue::clFinish(w.queue);
        memory::clReleaseMemObject(w.buffer);
        queue::clReleaseCommandQueue(w.queue);
        context::clReleaseContext(w.context);
    }
}

unsafe fn buffers(w: &World) {
    let (none, e) = (null(), null_mut());
    let (mut bytes, b) = (vec![3u8; SIZE], w.buffer);
    let there = bytes.as_mut_ptr().cast::<c_void>();
    // SAFETY: as in `run`.
    unsafe {
        transfer::clEnqueueWriteBuffer(w.queue, b, 0, 0, SIZE, there, 0, none, e);
        transfer::clEnqueueFillBuffer(w.queue, b, there, 4, 64, 256, 0, none, e);
        let other = memory::clCreateBuffer(w.context, 1 | 32, SIZE, there, null_mut());
        transfer::clEnqueueCopyBuffer(w.queue, other, b, 0, 128, 512, 0, none, e);
        let (origin, region) = ([0, 0, 0], [16, 4, 2]);
        let (o, r) = (origin.as_ptr(), region.as_ptr());
        rect::clEnqueueCopyBufferRect(w.queue, other, b, o, o, r, 64, 256, 32, 0, 0, none, e);
        let part = [1024usize, 512];
        let part = part.as_ptr().cast();
        let part = memory::clCreateSubBuffer(b, 1, 0x1220, part, null_mut());
        transfer::clEnqueueFillBuffer(w.queue, part, there, 1, 0, 512, 0, none, e);
        memory::clSetMemObjectDestructorCallback(part, told as *const c_void, null_mut());
        transfer::clEnqueueMigrateMemObjects(w.queue, 1, &other, 0, 0, none, e);
        memory::clReleaseMemObject(part);
        memory::clReleaseMemObject(other);
        transfer::clEnqueueReadBuffer(w.queue, b, 1, 0, SIZE, there, 0, none, e);
        transfer::clEnqueueReadBuffer(w.queue, b, 1, 40, 20, there, 0, none, e);
    }
}

unsafe fn events(w: &World) {
    let (none, mut bytes) = (null(), vec![0u8; SIZE]);
    let there = bytes.as_mut_ptr().cast::<c_void>();
    // SAFETY: as in `run`.
    unsafe {
        let own = event::clCreateUserEvent(w.context, null_mut());
        let (mut a, mut b, mut c) = (null_mut(), null_mut(), null_mut());
        let q = w.queue;
        transfer::clEnqueueFillBuffer(q, w.buffer, there, 4, 0, 64, 1, &own, &mut a);
        queue::clEnqueueMarkerWithWaitList(q, 1, &a, &mut b);
        queue::clEnqueueBarrierWithWaitList(q, 0, none, &mut c);
        event::clSetEventCallback(b, 0, told as *const c_void, null_mut());
        queue::clFlush(q);
        let mut value = [0u64; 2];
        let to = value.as_mut_ptr().cast();
        event::clGetEventInfo(a, 0x11d3, 4, to, null_mut());
        event::clSetUserEventStatus(own, 0);
        event::clWaitForEvents(1, &b);
        event::clGetEventProfilingInfo(a, 0x1282, 8, to, null_mut());
        let second = queue::clCreateCommandQueue(w.context, w.device, 1, null_mut());
        let size = 4096;
        transfer::clEnqueueReadBuffer(second, w.buffer, 0, 0, size, there, 1, &c, null_mut());
        queue::clFinish(second);
        queue::clReleaseCommandQueue(second);
        for e in [own, a, b, c] {
            event::clReleaseEvent(e);
        }
    }
}

unsafe fn images(w: &World) {
    let (none, e, q) = (null(), null_mut(), w.queue);
    let mut bytes = vec![0u8; SIZE];
    let there = bytes.as_mut_ptr().cast::<c_void>();
    // SAFETY: as in `run`; of the descriptions all zero is one.
    unsafe {
        let format = ImageFormat {
            order: 0x10b5,
            data_type: 0x10da,
        };
        let mut shape: ImageDesc = std::mem::zeroed();
        shape.kind = 0x10f1;
        shape.width = 32;
        shape.height = 16;
        let image = image::clCreateImage(w.context, 1, &format, &shape, null_mut(), null_mut());
        let sampler = sampler::clCreateSampler(w.context, 0, 0x1131, 0x1140, null_mut());
        let (origin, region) = ([0, 0, 0], [8, 8, 1]);
        let (o, r) = (origin.as_ptr(), region.as_ptr());
        image::clEnqueueFillImage(q, image, there, o, r, 0, none, e);
        image::clEnqueueWriteImage(q, image, 1, o, r, 0, 0, there, 0, none, e);
        image::clEnqueueReadImage(q, image, 1, o, r, 0, 0, there, 0, none, e);
        sampler::clReleaseSampler(sampler);
        memory::clReleaseMemObject(image);
    }
}

unsafe fn maps(w: &World) {
    let (none, e, q) = (null(), null_mut(), w.queue);
    // SAFETY: as in `run`; what is mapped is as long as was asked for.
    unsafe {
        for flags in [1, 2, 4] {
            let mut rc = -1;
            let p = map::clEnqueueMapBuffer(q, w.buffer, 1, flags, 64, 256, 0, none, e, &mut rc);
            if rc == 0 && !p.is_null() {
                p.cast::<u8>().write_bytes(5, 256);
                map::clEnqueueUnmapMemObject(q, w.buffer, p, 0, none, e);
            }
        }
    }
}

unsafe fn shared(w: &World) {
    let (none, e, q, word) = (null(), null_mut(), w.queue, 7u32);
    // SAFETY: as in `run`.
    unsafe {
        let p = svm::clSVMAlloc(w.context, 1, SIZE, 0);
        let word = (&raw const word).cast();
        svm::clEnqueueSVMMemFill(q, p, word, 4, 256, 0, none, e);
        let to = p.cast::<u8>().wrapping_add(512).cast();
        svm::clEnqueueSVMMemcpy(q, 1, to, p, 256, 0, none, e);
        queue::clFinish(q);
        svm::clSVMFree(w.context, p);
    }
}
