//! CUDA.

use busbar_abi::cuda::*;
use busbar_client::cuda::generated::*;
use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

/// The simulated driver's kernels.
const IMAGE: &CStr = c"fakedev-module 1\nkernel nop nop\nkernel fill fill_u32\n\
    kernel copy copy\nkernel say say\nkernel trap trap\nglobal counter 64\n";

static RAN: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn ran(_: *mut c_void) {
    RAN.fetch_add(1, Ordering::Relaxed);
}

unsafe extern "C" fn told(_: CUstream, _: CUresult, _: *mut c_void) {
    RAN.fetch_add(1, Ordering::Relaxed);
}

/// What the calls of a program work with.
pub struct World {
    device: CUdevice,
    context: CUcontext,
    stream: CUstream,
    memory: CUdeviceptr,
}

const SIZE: usize = 24 << 10;

/// A family's calls.
pub type Family = unsafe fn(&World);

/// All families.
pub const ALL: [(&str, Family); 10] = [
    ("devices", devices),
    ("copies", copies),
    ("streams", streams),
    ("modules", modules),
    ("graphs", graphs),
    ("arrays", arrays),
    ("pools", pools),
    ("ranges", ranges),
    ("host", host_memory),
    ("links", links),
];

/// Runs these families.
pub fn run(families: &[(&str, Family)]) {
    // SAFETY: the calls are given memory of this program's, as long as they are told, for as long
    // as they need it.
    unsafe {
        init::cuInit(0);
        let mut w = World {
            device: 0,
            context: null_mut(),
            stream: null_mut(),
            memory: 0,
        };
        device::cuDeviceGet(&mut w.device, 0);
        context::cuDevicePrimaryCtxRetain(&mut w.context, w.device);
        context::cuCtxSetCurrent(w.context);
        stream::cuStreamCreate(&mut w.stream, 1);
        memory::cuMemAlloc_v2(&mut w.memory, SIZE);
        for (_, family) in families {
            family(&w);
        }
        context::cuCtxSynchronize();
        memory::cuMemFree_v2(w.memory);
        stream::cuStreamDestroy_v2(w.stream);
        context::cuDevicePrimaryCtxRelease_v2(w.device);
    }
}

unsafe fn devices(w: &World) {
    // SAFETY: as in `run`.
    unsafe {
        let (mut n, mut name, mut bytes) = (0, vec![0; 64], 0);
        device::cuDeviceGetCount(&mut n);
        device::cuDeviceGetName(name.as_mut_ptr(), 64, w.device);
        device::cuDeviceTotalMem_v2(&mut bytes, w.device);
        for attribute in [1, 16, 75, 76, 41, 83] {
            device::cuDeviceGetAttribute(&mut n, attribute, w.device);
        }
        device::cuDeviceGetPCIBusId(name.as_mut_ptr(), 64, w.device);
        let mut free = 0;
        memory::cuMemGetInfo_v2(&mut free, &mut bytes);
        let mut limit = 0;
        context::cuCtxGetLimit(&mut limit, 0);
        context::cuCtxSetLimit(0, 4096);
        let mut other = null_mut();
        context::cuCtxCreate_v2(&mut other, 0, w.device);
        context::cuCtxSynchronize();
        context::cuCtxDestroy_v2(other);
        context::cuCtxSetCurrent(w.context);
        peer::cuDeviceCanAccessPeer(&mut n, w.device, w.device);
        profiler::cuProfilerStart();
        let (mut since, mut len) = (0, 256);
        let mut text = vec![0; 256];
        logs::cuLogsCurrent(&mut since, 0);
        memory::cuMemFree_v2(1);
        logs::cuLogsDumpToMemory(&mut since, text.as_mut_ptr(), &mut len, 0);
    }
}

unsafe fn copies(w: &World) {
    // SAFETY: as in `run`.
    unsafe {
        let there: Vec<u8> = (0..SIZE).map(|i| i as u8).collect();
        let mut back = vec![0u8; SIZE];
        copy::cuMemcpyHtoD_v2(w.memory, there.as_ptr().cast(), SIZE);
        memset::cuMemsetD8_v2(w.memory + 100, 7, 1000);
        memset::cuMemsetD32Async(w.memory, 9, 50, w.stream);
        copy::cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), w.memory, SIZE);
        copy::cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), w.memory + 8, 12);
        copy::cuMemcpyHtoDAsync_v2(w.memory, there.as_ptr().cast(), 4096, w.stream);
        copy::cuMemcpyDtoHAsync_v2(back.as_mut_ptr().cast(), w.memory, 5000, w.stream);
        stream::cuStreamSynchronize(w.stream);
        copy::cuMemcpyDtoD_v2(w.memory, w.memory + 4096, 4096);
        let mut rows: CUDA_MEMCPY2D = std::mem::zeroed();
        rows.srcMemoryType = 2;
        rows.srcDevice = w.memory;
        rows.srcPitch = 512;
        rows.dstMemoryType = 1;
        rows.dstHost = back.as_mut_ptr().cast();
        rows.dstPitch = 300;
        rows.WidthInBytes = 200;
        rows.Height = 20;
        copy::cuMemcpy2D_v2(&rows);
        let (mut pitched, mut pitch) = (0, 0);
        memory::cuMemAllocPitch_v2(&mut pitched, &mut pitch, 100, 16, 4);
        let (mut base, mut len, mut kind) = (0, 0, 0u32);
        memory::cuMemGetAddressRange_v2(&mut base, &mut len, w.memory + 5);
        memory::cuPointerGetAttribute((&raw mut kind).cast(), 2, w.memory);
        memory::cuMemFree_v2(pitched);
        let mut managed = 0;
        managed::cuMemAllocManaged(&mut managed, 8192, 1);
        memset::cuMemsetD8_v2(managed, 3, 8192);
        context::cuCtxSynchronize();
        memory::cuMemFree_v2(managed);
        let mut handle = std::mem::zeroed();
        ipc::cuIpcGetMemHandle(&mut handle, w.memory);
    }
}

unsafe fn streams(w: &World) {
    // SAFETY: as in `run`.
    unsafe {
        let (mut s, mut flags) = (null_mut(), 0);
        stream::cuStreamCreateWithPriority(&mut s, 1, -1);
        stream::cuStreamGetFlags(s, &mut flags);
        let (mut a, mut b, mut ms) = (null_mut(), null_mut(), 0.0);
        event::cuEventCreate(&mut a, 0);
        event::cuEventCreate(&mut b, 0);
        event::cuEventRecord(a, s);
        memset::cuMemsetD32Async(w.memory, 1, 64, s);
        event::cuEventRecord(b, s);
        stream::cuStreamWaitEvent(w.stream, b, 0);
        launch::cuLaunchHostFunc(s, Some(ran), null_mut());
        stream::cuStreamAddCallback(s, Some(told), null_mut(), 0);
        stream::cuStreamQuery(s);
        event::cuEventQuery(b);
        event::cuEventSynchronize(b);
        event::cuEventElapsedTime_v2(&mut ms, a, b);
        stream::cuStreamSynchronize(s);
        event::cuEventDestroy_v2(a);
        event::cuEventDestroy_v2(b);
        stream::cuStreamDestroy_v2(s);
    }
}

/// Loads the image and launches its kernels.
unsafe fn modules(w: &World) {
    // SAFETY: as in `run`.
    unsafe {
        let (mut m, mut f, mut n) = (null_mut(), null_mut(), 0);
        module::cuModuleLoadData(&mut m, IMAGE.as_ptr().cast());
        module::cuModuleGetFunctionCount(&mut n, m);
        let mut all = vec![null_mut(); 8];
        module::cuModuleEnumerateFunctions(all.as_mut_ptr(), 8, m);
        for name in [c"nop", c"fill", c"copy", c"say", c"none"] {
            module::cuModuleGetFunction(&mut f, m, name.as_ptr());
            let (mut said, mut value, mut at, mut size) = (null(), 0, 0, 0);
            module::cuFuncGetName(&mut said, f);
            module::cuFuncGetAttribute(&mut value, 0, f);
            module::cuFuncGetParamInfo(f, 0, &mut at, &mut size);
            let mut blocks = 0;
            occupancy::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, f, 64, 0);
            let (mut p, mut q, mut k) = (w.memory, w.memory + 4096, 16u64);
            let mut params: [*mut c_void; 3] = [
                (&raw mut p).cast(),
                (&raw mut q).cast(),
                (&raw mut k).cast(),
            ];
            let params = params.as_mut_ptr();
            launch::cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, w.stream, params, null_mut());
        }
        let (mut p, mut size) = (0, 0);
        module::cuModuleGetGlobal_v2(&mut p, &mut size, m, c"counter".as_ptr());
        memset::cuMemsetD8_v2(p, 0, 64);
        stream::cuStreamSynchronize(w.stream);
        module::cuModuleUnload(m);
        let (mut l, mut k) = (null_mut(), null_mut());
        let image = IMAGE.as_ptr().cast();
        let (none, nothing) = (null_mut(), null_mut());
        library::cuLibraryLoadData(&mut l, image, none, nothing, 0, null_mut(), null_mut(), 0);
        library::cuLibraryGetKernel(&mut k, l, c"nop".as_ptr());
        library::cuKernelGetFunction(&mut f, k);
        library::cuLibraryGetModule(&mut m, l);
        library::cuLibraryGetGlobal(&mut p, &mut size, l, c"counter".as_ptr());
        launch::cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, null_mut(), null_mut(), null_mut());
        library::cuLibraryUnload(l);
    }
}

unsafe fn graphs(w: &World) {
    // SAFETY: as in `run`.
    unsafe {
        let (mut g, mut first, mut second) = (null_mut(), null_mut(), null_mut());
        graph::cuGraphCreate(&mut g, 0);
        graph::cuGraphAddEmptyNode(&mut first, g, null(), 0);
        let set = CUDA_MEMSET_NODE_PARAMS {
            dst: w.memory,
            pitch: 0,
            value: 5,
            elementSize: 4,
            width: 64,
            height: 1,
        };
        graph::cuGraphAddMemsetNode(&mut second, g, &first, 1, &set, w.context);
        let host = CUDA_HOST_NODE_PARAMS {
            r#fn: Some(ran),
            userData: null_mut(),
        };
        let mut third = null_mut();
        graph::cuGraphAddHostNode(&mut third, g, &second, 1, &host);
        let mut part = null_mut();
        graph::cuGraphClone(&mut part, g);
        let mut fourth = null_mut();
        graph::cuGraphAddChildGraphNode(&mut fourth, g, &third, 1, part);
        let mut object = null_mut();
        user_object::cuUserObjectCreate(&mut object, null_mut(), Some(ran), 1, 1);
        user_object::cuGraphRetainUserObject(g, object, 1, 1);
        let (mut n, mut nodes) = (8, vec![null_mut(); 8]);
        graph::cuGraphGetNodes(g, nodes.as_mut_ptr(), &mut n);
        let (mut from, mut to, mut n) = (vec![null_mut(); 8], vec![null_mut(); 8], 8);
        graph::cuGraphGetEdges(g, from.as_mut_ptr(), to.as_mut_ptr(), &mut n);
        let mut kind = 0;
        graph::cuGraphNodeGetType(second, &mut kind);
        let mut exec = null_mut();
        graph::cuGraphInstantiateWithFlags(&mut exec, g, 0);
        graph::cuGraphLaunch(exec, w.stream);
        graph::cuGraphLaunch(exec, w.stream);
        stream::cuStreamSynchronize(w.stream);
        let mut said = std::mem::zeroed();
        graph::cuGraphExecUpdate_v2(exec, g, &mut said);
        graph::cuGraphExecDestroy(exec);
        graph::cuGraphDestroyNode(first);
        graph::cuGraphDestroy(part);
        graph::cuGraphDestroy(g);
        let (mut captured, mut status) = (null_mut(), 0);
        stream::cuStreamBeginCapture_v2(w.stream, 2);
        memset::cuMemsetD32Async(w.memory, 1, 16, w.stream);
        launch::cuLaunchHostFunc(w.stream, Some(ran), null_mut());
        stream::cuStreamIsCapturing(w.stream, &mut status);
        stream::cuStreamEndCapture(w.stream, &mut captured);
        graph::cuGraphInstantiateWithFlags(&mut exec, captured, 0);
        graph::cuGraphLaunch(exec, w.stream);
        stream::cuStreamSynchronize(w.stream);
        graph::cuGraphExecDestroy(exec);
        graph::cuGraphDestroy(captured);
    }
}

unsafe fn arrays(w: &World) {
    // SAFETY: as in `run`.
    unsafe {
        let shape = CUDA_ARRAY_DESCRIPTOR {
            Width: 32,
            Height: 16,
            Format: 0x20,
            NumChannels: 4,
        };
        let mut a = null_mut();
        array::cuArrayCreate_v2(&mut a, &shape);
        let mut back: CUDA_ARRAY_DESCRIPTOR = std::mem::zeroed();
        array::cuArrayGetDescriptor_v2(&mut back, a);
        let mut rows: CUDA_MEMCPY2D = std::mem::zeroed();
        rows.srcMemoryType = 2;
        rows.srcDevice = w.memory;
        rows.srcPitch = 512;
        rows.dstMemoryType = 3;
        rows.dstArray = a;
        rows.WidthInBytes = 256;
        rows.Height = 16;
        copy::cuMemcpy2D_v2(&rows);
        let mut what: CUDA_RESOURCE_DESC = std::mem::zeroed();
        what.res[0] = a as u64;
        let (how, mut texture) = (std::mem::zeroed(), 0);
        texture::cuTexObjectCreate(&mut texture, &what, &how, null());
        texture::cuTexObjectDestroy(texture);
        array::cuArrayDestroy(a);
        let shape = CUDA_ARRAY3D_DESCRIPTOR {
            Width: 32,
            Height: 16,
            Depth: 0,
            Format: 0x20,
            NumChannels: 1,
            Flags: 0,
        };
        let (mut levels, mut level) = (null_mut(), null_mut());
        array::cuMipmappedArrayCreate(&mut levels, &shape, 3);
        array::cuMipmappedArrayGetLevel(&mut level, levels, 1);
        array::cuMipmappedArrayDestroy(levels);
    }
}

unsafe fn pools(w: &World) {
    // SAFETY: as in `run`.
    unsafe {
        let (mut p, mut q) = (0, 0);
        pool::cuMemAllocAsync(&mut p, 4096, w.stream);
        memset::cuMemsetD32Async(p, 1, 1024, w.stream);
        pool::cuMemFreeAsync(p, w.stream);
        let mut own = null_mut();
        let mut shape: CUmemPoolProps = std::mem::zeroed();
        shape.allocType = 1;
        shape.location.r#type = 1;
        pool::cuMemPoolCreate(&mut own, &shape);
        pool::cuMemAllocFromPoolAsync(&mut q, 8192, own, w.stream);
        let mut used = 0u64;
        pool::cuMemPoolGetAttribute(own, 7, (&raw mut used).cast());
        pool::cuMemFreeAsync(q, w.stream);
        stream::cuStreamSynchronize(w.stream);
        pool::cuMemPoolTrimTo(own, 0);
        pool::cuMemPoolDestroy(own);
        let mut usual = null_mut();
        pool::cuDeviceGetDefaultMemPool(&mut usual, w.device);
    }
}

unsafe fn ranges(_: &World) {
    const PAGE: usize = 2 << 20;
    // SAFETY: as in `run`.
    unsafe {
        let (mut range, mut handle) = (0, 0);
        vmm::cuMemAddressReserve(&mut range, 2 * PAGE, 0, 0, 0);
        let mut shape: CUmemAllocationProp = std::mem::zeroed();
        shape.r#type = 1;
        shape.location.r#type = 1;
        vmm::cuMemCreate(&mut handle, PAGE, &shape, 0);
        vmm::cuMemMap(range, PAGE, 0, handle, 0);
        let access = CUmemAccessDesc {
            location: shape.location,
            flags: 3,
        };
        vmm::cuMemSetAccess(range, PAGE, &access, 1);
        memset::cuMemsetD8_v2(range, 1, 4096);
        vmm::cuMemRelease(handle);
        vmm::cuMemUnmap(range, PAGE);
        vmm::cuMemAddressFree(range, 2 * PAGE);
    }
}

unsafe fn host_memory(w: &World) {
    // SAFETY: as in `run`.
    unsafe {
        let mut p = null_mut();
        memory::cuMemHostAlloc(&mut p, 20 << 10, 2);
        if !p.is_null() {
            p.cast::<u8>().write_bytes(3, 100);
            copy::cuMemcpyHtoDAsync_v2(w.memory, p, 20 << 10, w.stream);
            copy::cuMemcpyDtoHAsync_v2(p, w.memory, 20 << 10, w.stream);
            stream::cuStreamSynchronize(w.stream);
            RAN.fetch_add(u32::from(p.cast::<u8>().add(5).read()), Ordering::Relaxed);
        }
        memory::cuMemFreeHost(p);
        let mut own = vec![0u64; 4096];
        memory::cuMemHostRegister_v2(own.as_mut_ptr().cast(), 20 << 10, 0);
        copy::cuMemcpyDtoHAsync_v2(own.as_mut_ptr().cast(), w.memory, 20 << 10, w.stream);
        stream::cuStreamSynchronize(w.stream);
        memory::cuMemHostUnregister(own.as_mut_ptr().cast());
    }
}

unsafe fn links(_: &World) {
    // SAFETY: as in `run`.
    unsafe {
        let (mut state, mut image, mut len) = (null_mut(), null_mut(), 0);
        module::cuLinkCreate_v2(0, null_mut(), null_mut(), &mut state);
        let text = c".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n";
        module::cuLinkAddData_v2(
            state,
            1,
            text.as_ptr().cast_mut().cast(),
            text.to_bytes_with_nul().len(),
            c"k".as_ptr(),
            0,
            null_mut(),
            null_mut(),
        );
        module::cuLinkComplete(state, &mut image, &mut len);
        module::cuLinkDestroy(state);
    }
}
