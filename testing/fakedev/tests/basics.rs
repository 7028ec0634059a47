//! Devices, contexts, symbols, modules and kernels.

mod common;

use common::{Driver, LaunchAttribute, LaunchConfig, Params};
use std::ffi::CStr;
use std::ptr;

#[test]
fn devices_are_as_set() {
    let driver = Driver::bare(&[("FAKEDEV_DEVICES", "3"), ("FAKEDEV_MEMORY_MIB", "64")]);
    let mut count = 0;
    assert_eq!(
        driver.cuDeviceGetCount(&mut count),
        3,
        "not initialised yet"
    );
    assert_eq!(driver.cuInit(1), 1, "flags must be zero");
    assert_eq!(driver.cuInit(0), 0);
    assert_eq!((driver.cuDeviceGetCount(&mut count), count), (0, 3));
    let mut device = 0;
    assert_eq!(driver.cuDeviceGet(&mut device, 3), 101);
    let mut name = [0_u8; 32];
    assert_eq!(driver.cuDeviceGetName(name.as_mut_ptr(), 7, 0), 0);
    assert_eq!(&name[..8], b"Busbar\0\0");
    let mut uuids = std::collections::HashSet::new();
    for ordinal in 0..3 {
        let (mut uuid, mut bus, mut major) = ([0; 16], [0_u8; 16], 0);
        assert_eq!(driver.cuDeviceGetUuid_v2(&mut uuid, ordinal), 0);
        assert!(uuids.insert(uuid));
        assert_eq!(driver.cuDeviceGetAttribute(&mut major, 75, ordinal), 0);
        assert_eq!(major, 9);
        assert_eq!(driver.cuDeviceGetPCIBusId(bus.as_mut_ptr(), 16, ordinal), 0);
        assert_eq!(driver.cuDeviceGetByPCIBusId(&mut device, bus.as_ptr()), 0);
        assert_eq!(device, ordinal);
    }
    let mut value = 0;
    for which in 1..=147 {
        assert_eq!(
            driver.cuDeviceGetAttribute(&mut value, which, 0),
            0,
            "attribute {which}"
        );
    }
    assert_eq!(driver.cuDeviceGetAttribute(&mut value, 999, 0), 1);
}

#[test]
fn contexts_stack_by_thread() {
    let driver = Driver::bare(&[("FAKEDEV_DEVICES", "2")]);
    assert_eq!(driver.cuInit(0), 0);
    let (mut a, mut b, mut now, mut device) = (0, 0, 0, 0);
    assert_eq!(driver.cuCtxGetDevice(&mut device), 201);
    assert_eq!(driver.cuCtxCreate_v2(&mut a, 0, 0), 0);
    assert_eq!(driver.cuCtxCreate_v4(&mut b, ptr::null(), 0, 1), 0);
    assert_eq!((driver.cuCtxGetDevice(&mut device), device), (0, 1));
    assert_eq!((driver.cuCtxPopCurrent_v2(&mut now), now), (0, b));
    assert_eq!((driver.cuCtxGetCurrent(&mut now), now), (0, a));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = 1;
            assert_eq!((driver.cuCtxGetCurrent(&mut other), other), (0, 0));
        });
    });
    assert_eq!(driver.cuCtxDestroy_v2(a), 0);
    assert_eq!(driver.cuCtxDestroy_v2(a), 201);
    assert_eq!((driver.cuCtxGetCurrent(&mut now), now), (0, 0));
    assert_eq!(driver.cuCtxPushCurrent_v2(a), 201, "a destroyed context");
    assert_eq!(driver.cuCtxPushCurrent_v2(b), 0);
    assert_eq!(driver.cuCtxSetLimit(0, 4096), 0);
    let mut limit = 0;
    assert_eq!((driver.cuCtxGetLimit(&mut limit, 0), limit), (0, 4096));
    assert_eq!(driver.cuCtxSetLimit(77, 1), 215);
    assert_eq!(driver.cuCtxDestroy_v2(b), 0);
}

#[test]
fn a_primary_context_lives_while_retained() {
    let driver = Driver::new();
    let free = driver.free();
    let (mut context, mut flags, mut active) = (0, 0, 0);
    assert_eq!(driver.cuDevicePrimaryCtxRetain(&mut context, 0), 0);
    driver.alloc(1 << 20);
    driver.module();
    assert_eq!(driver.cuDevicePrimaryCtxRelease_v2(0), 0);
    assert_eq!(
        driver.cuDevicePrimaryCtxGetState(0, &mut flags, &mut active),
        0
    );
    assert_eq!(active, 1);
    assert_eq!(driver.cuDevicePrimaryCtxRelease_v2(0), 0);
    assert_eq!(
        driver.cuDevicePrimaryCtxGetState(0, &mut flags, &mut active),
        0
    );
    assert_eq!(active, 0);
    assert_eq!(driver.cuDevicePrimaryCtxRelease_v2(0), 201);
    let mut address = 0;
    assert_eq!(
        driver.cuMemAlloc_v2(&mut address, 16),
        709,
        "the context is gone"
    );
    let mut again = 0;
    assert_eq!(driver.cuDevicePrimaryCtxRetain(&mut again, 0), 0);
    assert_eq!(again, context, "the handle stays");
    assert_eq!(driver.free(), free, "what it owned went with it");
}

#[test]
fn symbols_are_found_by_version_and_flavour() {
    let driver = Driver::bare(&[]);
    let find = |name: &str, version, flags| {
        let (mut f, mut status) = (0, -1);
        let name = format!("{name}\0");
        let code =
            driver.cuGetProcAddress_v2(name.as_ptr().cast(), &mut f, version, flags, &mut status);
        assert_eq!(code, 0);
        (f, status)
    };
    let (new, _) = find("cuMemAlloc", 12000, 0);
    let (old, _) = find("cuMemAlloc", 2000, 0);
    assert!(new != 0 && old != 0 && new != old);
    assert_eq!(find("cuMemAlloc", 1000, 0), (0, 2));
    assert_eq!(find("cuMemAllocate", 12000, 0), (0, 1));
    let (legacy, _) = find("cuLaunchKernel", 12000, 1);
    let (thread, _) = find("cuLaunchKernel", 12000, 2);
    assert!(legacy != thread);
    assert_eq!(find("cuInit", 12000, 2).1, 0, "no flavour of its own");
    assert!(find("cuCtxGetDevice", 13000, 0).0 != find("cuCtxGetDevice", 12000, 0).0);
    let mut text = ptr::null();
    assert_eq!(driver.cuGetErrorName(700, &mut text), 0);
    // SAFETY: the driver gave a C string.
    let text = unsafe { CStr::from_ptr(text) };
    assert_eq!(text.to_str().unwrap(), "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_eq!(
        driver.cuGreenCtxDestroy(1),
        801,
        "a name that is not simulated"
    );
}

#[test]
fn kernels_compute() {
    let driver = Driver::new();
    let module = driver.module();
    let (a, b, out) = (driver.alloc(4096), driver.alloc(4096), driver.alloc(8));
    let run = |name: &str, words: &[u64]| {
        let function = driver.function(module, name);
        assert_eq!(driver.launch(function, 0, words), 0, "{name}");
        assert_eq!(driver.cuCtxSynchronize(), 0, "{name}");
    };
    run("iota\0", &[a, 5, 1024]);
    assert_eq!(driver.read(a, 3), [5, 6, 7]);
    run("reduce\0", &[out, a, 1024]);
    assert_eq!(driver.read(out, 2)[0], (5..1029).sum::<u32>());
    run("copy\0", &[b, a, 4096]);
    assert_eq!(driver.read(b, 1024), driver.read(a, 1024));
    run("scramble\0", &[b, 7, 512]);
    assert_ne!(driver.read(b, 1024), driver.read(a, 1024));
    run("scramble\0", &[b, 7, 512]);
    assert_eq!(driver.read(b, 1024), driver.read(a, 1024));
    driver.write(a, &[1.5_f32.to_bits(); 8]);
    driver.write(b, &[2.0_f32.to_bits(); 8]);
    run("saxpy\0", &[b, a, 2.0_f32.to_bits().into(), 8]);
    assert_eq!(driver.read(b, 8), [5.0_f32.to_bits(); 8]);
    run("add\0", &[b, b, a, 8]);
    assert_eq!(driver.read(b, 8), [6.5_f32.to_bits(); 8]);
    run("flag\0", &[out, 77]);
    assert_eq!(driver.read(out, 1), [77]);
    run("assert\0", &[1]);
    run("probe\0", &[a, 4096]);
}

#[test]
fn launches_are_checked() {
    let driver = Driver::new();
    let module = driver.module();
    let spin = driver.function(module, "nop\0");
    let launch = |function, grid: [u32; 3], block: [u32; 3], shared| {
        let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
        let none = ptr::null_mut();
        driver.cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, 0, none, none)
    };
    assert_eq!(launch(0, [1; 3], [1; 3], 0), 400);
    assert_eq!(
        launch(module, [1; 3], [1; 3], 0),
        400,
        "a module is no function"
    );
    assert_eq!(launch(spin, [0, 1, 1], [1; 3], 0), 1);
    assert_eq!(launch(spin, [1; 3], [1025, 1, 1], 0), 1);
    assert_eq!(launch(spin, [1; 3], [64, 64, 1], 0), 1);
    assert_eq!(launch(spin, [1, 65536, 1], [1; 3], 0), 1);
    assert_eq!(launch(spin, [1; 3], [1; 3], 49153), 1);
    assert_eq!(driver.cuFuncSetAttribute(spin, 8, 100_000), 0);
    assert_eq!(launch(spin, [1; 3], [1; 3], 49153), 0);
    assert_eq!(driver.cuFuncSetAttribute(spin, 8, 1 << 20), 1);
    let fill = driver.function(module, "fill_u32\0");
    assert_eq!(launch(fill, [1; 3], [1; 3], 0), 1, "no parameters");
    assert_eq!(driver.cuCtxSynchronize(), 0);
    assert_eq!((driver.stat(0), driver.stat(1)), (1, 1));
}

#[test]
fn a_cooperative_launch_must_fit_the_device() {
    let driver = Driver::new();
    let fill = driver.function(driver.module(), "fill_u32\0");
    let out = driver.alloc(4);
    let cooperative = LaunchAttribute {
        id: 2,
        pad: 0,
        value: [1; 16],
    };
    let mut params = Params::new(&[out, 6, 1]);
    let mut launch = |blocks, count| {
        let (grid, block, attributes) = ([blocks, 1, 1], [1; 3], &raw const cooperative);
        let config = LaunchConfig {
            grid,
            block,
            shared: 0,
            stream: 0,
            attributes,
            count,
        };
        driver.cuLaunchKernelEx(&config, fill, params.list(), ptr::null_mut())
    };
    assert_eq!(launch(132, 1), 0);
    assert_eq!(launch(100_000, 1), 720);
    assert_eq!(launch(100_000, 0), 0, "not cooperative");
    assert_eq!(driver.read(out, 1), [6]);
}

#[test]
fn parameters_come_in_a_buffer_too() {
    let driver = Driver::new();
    let module = driver.module();
    let out = driver.alloc(64);
    let fill = driver.function(module, "fill_u32\0");
    let mut packed = [out, 9, 16];
    let size = std::cell::Cell::new(24_usize);
    let mut extra = [
        ptr::without_provenance_mut(1),
        packed.as_mut_ptr().cast(),
        ptr::without_provenance_mut(2),
        size.as_ptr().cast(),
        ptr::null_mut(),
    ];
    let launch = |extra: *mut *mut _| {
        driver.cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, 0, ptr::null_mut(), extra)
    };
    assert_eq!(launch(extra.as_mut_ptr()), 0);
    assert_eq!(driver.read(out, 16), [9; 16]);
    // A device takes less than there is to give, and neither nothing nor more.
    size.set(20);
    assert_eq!(launch(extra.as_mut_ptr()), 0, "a short buffer");
    size.set(0);
    assert_eq!(launch(extra.as_mut_ptr()), 1, "none");
    size.set(25);
    assert_eq!(launch(extra.as_mut_ptr()), 701, "too long a buffer");
}

#[test]
fn modules_and_libraries_load() {
    let driver = Driver::new();
    let (free, live) = (driver.free(), driver.live());
    let mut module = 0;
    for bad in [
        "",
        "hello\0",
        "fakedev-module 1\nkernel k nonesuch\n\0",
        "fakedev-module 1\nbad\0",
    ] {
        let bad = format!("{bad}\0\0\0\0");
        assert_eq!(
            driver.cuModuleLoadData(&mut module, bad.as_ptr().cast()),
            200,
            "{bad}"
        );
    }
    assert_eq!(driver.cuModuleLoadData(&mut module, ptr::null()), 1);
    let module = driver.module();
    let (mut address, mut size) = (0, 0);
    let code = driver.cuModuleGetGlobal_v2(&mut address, &mut size, module, c"counter".as_ptr());
    assert_eq!((code, size), (0, 64));
    assert_eq!(driver.read(address, 16), [0; 16]);
    let code = driver.cuModuleGetGlobal_v2(&mut address, &mut size, module, c"absent".as_ptr());
    assert_eq!(code, 500);
    assert_eq!(driver.cuModuleUnload(module), 0);
    assert_eq!(driver.cuModuleUnload(module), 400);

    let (mut library, mut kernel, mut function) = (0, 0, 0);
    let image = common::IMAGE.as_ptr().cast();
    assert_eq!(
        driver.cuLibraryLoadData(&mut library, image, 0, 0, 0, 0, 0, 0),
        0
    );
    assert_eq!(
        driver.cuLibraryGetKernel(&mut kernel, library, c"fill_u32".as_ptr()),
        0
    );
    assert_eq!(driver.cuKernelGetFunction(&mut function, kernel), 0);
    assert_ne!(kernel, function);
    let (mut offset, mut size) = (0, 0);
    assert_eq!(
        driver.cuKernelGetParamInfo(kernel, 2, &mut offset, &mut size),
        0
    );
    assert_eq!((offset, size), (16, 8));
    assert_eq!(
        driver.cuKernelGetParamInfo(kernel, 3, &mut offset, &mut size),
        1
    );
    let out = driver.alloc(64);
    assert_eq!(driver.launch(function, 0, &[out, 1, 16]), 0);
    assert_eq!(
        driver.launch(kernel, 0, &[out, 2, 8]),
        0,
        "a kernel can be launched itself"
    );
    assert_eq!(driver.read(out, 9), [2, 2, 2, 2, 2, 2, 2, 2, 1]);
    assert_eq!(driver.cuMemFree_v2(out), 0);
    assert_eq!(driver.cuLibraryUnload(library), 0);
    assert_eq!(driver.launch(kernel, 0, &[out, 2, 8]), 400);
    assert_eq!((driver.free(), driver.live()), (free, live));
}

/// A 64-bit ELF image with one variable of 40 bytes, "table": a header, three sections, a symbol of
/// this binding, in this section, names.
fn elf(binding: u8, section: u8) -> Vec<u8> {
    let mut image = vec![0_u8; 64 + 3 * 64 + 24 + 16];
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    let (symbols, names) = (256_u64, 280_u64);
    put(0, b"\x7fELF\x02\x01\x01");
    put(0x28, &64_u64.to_le_bytes());
    put(0x3a, &[64, 0, 3, 0]);
    put(128 + 4, &[2]);
    put(128 + 0x18, &symbols.to_le_bytes());
    put(128 + 0x20, &24_u64.to_le_bytes());
    put(128 + 0x28, &[2]);
    put(192 + 4, &[3]);
    put(192 + 0x18, &names.to_le_bytes());
    put(192 + 0x20, &16_u64.to_le_bytes());
    put(256, &[1, 0, 0, 0, binding << 4 | 1, 0, section]);
    put(256 + 16, &40_u64.to_le_bytes());
    put(281, b"table\0");
    image
}

#[test]
fn a_real_image_has_its_globals_and_kernels_of_any_name() {
    let driver = Driver::new();
    let (mut module, mut address, mut size) = (0, 0, 0);
    let name = c"table".as_ptr();
    const NOT_FOUND: i32 = 500;
    let mut image = Vec::new();
    // What is another image's; what is this one's, for all, and as nvcc has it.
    for (binding, section, found) in [(1, 0, NOT_FOUND), (1, 1, 0), (0, 1, 0)] {
        image = elf(binding, section);
        assert_eq!(
            driver.cuModuleLoadData(&mut module, image.as_ptr().cast()),
            0
        );
        let rc = driver.cuModuleGetGlobal_v2(&mut address, &mut size, module, name);
        assert_eq!(rc, found, "{binding} {section}");
    }
    assert_eq!(size, 40);
    let function = driver.function(module, "_Z3addPfS_\0");
    let mut params = Params::new(&[1, 2]);
    let none = ptr::null_mut();
    let code = driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, params.list(), none);
    assert_eq!(code, 0);
    assert_eq!(driver.cuCtxSynchronize(), 0);
    assert_eq!(driver.stat(1), 1);
    for at in 4..image.len() {
        let kept = std::mem::replace(&mut image[at], 0xff);
        assert_eq!(
            driver.cuModuleLoadData(&mut module, image.as_ptr().cast()),
            0,
            "byte {at}"
        );
        image[at] = kept;
    }
}

/// One entry of a fat binary: its kind (1 PTX, 2 ELF), architecture and content.
fn entry(kind: u16, arch: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..2].copy_from_slice(&kind.to_le_bytes());
    bytes[4] = 64;
    bytes[8..16].copy_from_slice(&(content.len() as u64).to_le_bytes());
    bytes[28..32].copy_from_slice(&arch.to_le_bytes());
    bytes.extend_from_slice(content);
    bytes
}

fn fat(entries: &[Vec<u8>]) -> Vec<u8> {
    let body = entries.concat();
    let mut bytes = vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
    bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

#[test]
fn a_fat_binary_gives_what_fits_the_device() {
    let driver = Driver::new();
    let text = |name: &str| format!("fakedev-module 1\nkernel {name} nop\n").into_bytes();
    let entries = [
        entry(1, 50, &text("ptx")),
        entry(2, 80, &text("older")),
        entry(2, 90, &text("own")),
        entry(2, 100, &text("newer")),
    ];
    let all = fat(&entries);
    let mut wrapper = vec![0xb1, 0x43, 0x62, 0x46, 1, 0, 0, 0];
    wrapper.extend_from_slice(&(all.as_ptr() as u64).to_le_bytes());
    let (mut module, mut function) = (0, 0);
    for image in [&wrapper, &all] {
        assert_eq!(
            driver.cuModuleLoadData(&mut module, image.as_ptr().cast()),
            0
        );
        driver.function(module, "own\0");
        let name = c"older".as_ptr();
        assert_eq!(driver.cuModuleGetFunction(&mut function, module, name), 500);
    }
    let ptx = fat(&[entries[0].clone(), entries[1].clone()]);
    assert_eq!(driver.cuModuleLoadData(&mut module, ptx.as_ptr().cast()), 0);
    driver.function(module, "ptx\0");
    let none = fat(&[entries[1].clone(), entries[3].clone()]);
    assert_eq!(
        driver.cuModuleLoadData(&mut module, none.as_ptr().cast()),
        209
    );
    let mut cut = fat(&[entries[2].clone()]);
    cut[24] = 0xff;
    assert_eq!(
        driver.cuModuleLoadData(&mut module, cut.as_ptr().cast()),
        209
    );
}
