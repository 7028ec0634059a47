//! Memory of every kind, copies, fills, and that all of it comes back.

mod common;

use common::{AllocationProp, Driver, End2D, End3D, Memcpy2D, Memcpy3D};
use std::ptr;

const GRANULE: usize = 2 << 20;

#[test]
fn memory_is_limited_and_comes_back() {
    let driver = Driver::with(&[("FAKEDEV_MEMORY_MIB", "8")]);
    let (free, live) = (driver.free(), driver.live());
    assert_eq!(free, 8 << 20);
    let mut address = 0;
    assert_eq!(driver.cuMemAlloc_v2(&mut address, 0), 1);
    assert_eq!(driver.cuMemAlloc_v2(&mut address, (8 << 20) + 1), 2);
    assert_eq!(driver.cuMemAlloc_v2(&mut address, usize::MAX), 2);
    let first = driver.alloc(6 << 20);
    assert_eq!(driver.cuMemAlloc_v2(&mut address, 3 << 20), 2);
    let second = driver.alloc(1);
    assert_eq!(driver.free(), (2 << 20) - 512);
    let (mut base, mut size) = (0, 0);
    assert_eq!(
        driver.cuMemGetAddressRange_v2(&mut base, &mut size, first + 100),
        0
    );
    assert_eq!((base, size), (first, 6 << 20));
    assert_eq!(
        driver.cuMemGetAddressRange_v2(&mut base, &mut size, 4096),
        500
    );
    assert_eq!(driver.cuMemFree_v2(first + 8), 1, "not the beginning");
    assert_eq!(driver.cuMemFree_v2(first), 0);
    assert_eq!(driver.cuMemFree_v2(first), 1);
    assert_eq!(driver.cuMemFree_v2(second), 0);
    assert_eq!(driver.cuMemFree_v2(0), 0);
    let mut pitch = 0;
    assert_eq!(
        driver.cuMemAllocPitch_v2(&mut address, &mut pitch, 100, 10, 4),
        0
    );
    assert_eq!(pitch, 512);
    assert_eq!(driver.cuMemFree_v2(address), 0);
    assert_eq!((driver.free(), driver.live()), (free, live));
}

#[test]
fn copies_stay_inside_live_memory() {
    let driver = Driver::new();
    let address = driver.alloc(4096);
    let bytes = [7_u8; 8192];
    let copy = |at, n| driver.cuMemcpyHtoD_v2(at, bytes.as_ptr().cast(), n);
    assert_eq!(copy(address, 4096), 0);
    assert_eq!(copy(address + 1, 4096), 1);
    assert_eq!(copy(address, 0), 0);
    assert_eq!(copy(64, 4), 1);
    assert_eq!(copy(address, usize::MAX), 1);
    assert_eq!(driver.cuMemcpyHtoD_v2(address, ptr::null(), 4), 1);
    assert_eq!(driver.cuMemFree_v2(address), 0);
    assert_eq!(copy(address, 4096), 1, "freed");
}

#[test]
fn unified_copies_tell_the_direction_themselves() {
    let driver = Driver::new();
    let (device, mut host) = (driver.alloc(64), [0_u32; 16]);
    let from = [3_u32; 16];
    assert_eq!(driver.cuMemcpy(device, from.as_ptr() as u64, 64), 0);
    assert_eq!(driver.cuMemcpy(host.as_mut_ptr() as u64, device, 64), 0);
    assert_eq!(host, from);
    assert_eq!(
        driver.cuMemcpy(device + 32, from.as_ptr() as u64, 64),
        1,
        "past the end"
    );
}

#[test]
fn fills_have_all_widths() {
    let driver = Driver::new();
    let address = driver.alloc(1024);
    assert_eq!(driver.cuMemsetD8_v2(address, 0xab, 1024), 0);
    assert_eq!(driver.cuMemsetD16_v2(address + 4, 0x1234, 2), 0);
    assert_eq!(driver.cuMemsetD32_v2(address + 8, 0xdead_beef, 1), 0);
    assert_eq!(
        driver.read(address, 4),
        [0xabab_abab, 0x1234_1234, 0xdead_beef, 0xabab_abab]
    );
    assert_eq!(driver.cuMemsetD32_v2(address + 2, 0, 1), 1, "not aligned");
    assert_eq!(driver.cuMemsetD32_v2(address, 0, 257), 1, "past the end");
    assert_eq!(driver.cuMemsetD32_v2(address, 0, usize::MAX / 2), 1);
    assert_eq!(driver.cuMemsetD2D8_v2(address, 256, 1, 4, 4), 0);
    for row in 0..4 {
        assert_eq!(driver.read(address + row * 256, 1), [0x0101_0101]);
    }
    assert_eq!(driver.read(address + 260, 1), [0xabab_abab]);
    assert_eq!(
        driver.cuMemsetD2D8_v2(address, 256, 1, 4, 5),
        1,
        "past the end"
    );
}

#[test]
fn copies_have_two_and_three_dimensions() {
    let driver = Driver::new();
    let device = driver.alloc(1 << 16);
    let host: Vec<u8> = (0..=255).collect();
    let at = host.as_ptr() as usize;
    let mut copy = Memcpy2D {
        src: End2D {
            x: 2,
            y: 1,
            kind: 1,
            host: at,
            pitch: 16,
            ..End2D::default()
        },
        dst: End2D {
            x: 4,
            kind: 2,
            device,
            pitch: 64,
            ..End2D::default()
        },
        width: 8,
        height: 3,
    };
    assert_eq!(driver.cuMemcpy2D_v2(&copy), 0);
    let words = driver.read(device + 64, 4);
    assert_eq!(words[1].to_le_bytes(), [34, 35, 36, 37]);
    copy.height = 1 << 20;
    assert_eq!(driver.cuMemcpy2D_v2(&copy), 1, "past the end");
    copy.src.kind = 3;
    assert_eq!(driver.cuMemcpy2D_v2(&copy), 400, "no such array");

    let mut back = vec![0_u8; 64];
    let copy = Memcpy3D {
        src: End3D {
            x: 4,
            kind: 2,
            device,
            pitch: 64,
            height: 1,
            ..End3D::default()
        },
        dst: End3D {
            kind: 1,
            host: back.as_mut_ptr() as usize,
            pitch: 8,
            ..End3D::default()
        },
        width: 8,
        height: 1,
        depth: 3,
    };
    assert_eq!(driver.cuMemcpy3D_v2(&copy), 0);
    assert_eq!(back[..8], host[18..26]);
    assert_eq!(back[16..24], host[50..58]);
}

#[test]
fn host_memory_is_known_while_it_lives() {
    let driver = Driver::new();
    let live = driver.live();
    let (mut pinned, mut device) = (0, 0);
    assert_eq!(driver.cuMemHostAlloc(&mut pinned, 4096, 0), 0);
    assert_eq!(driver.cuMemHostAlloc(&mut device, 4096, 64), 1);
    assert_eq!(
        driver.cuMemHostGetDevicePointer_v2(&mut device, pinned + 8, 0),
        0
    );
    let mut kind = 0_i32;
    let out = (&raw mut kind).cast();
    assert_eq!(driver.cuPointerGetAttribute(out, 2, pinned), 0);
    assert_eq!(kind, 1);
    assert_eq!(driver.cuMemFree_v2(pinned), 1);
    assert_eq!(driver.cuMemFreeHost(pinned), 0);
    assert_eq!(driver.cuMemFreeHost(pinned), 1);
    assert_eq!(driver.cuPointerGetAttribute(out, 2, pinned), 1);

    let own = vec![0_u8; 8192];
    let at = own.as_ptr() as u64;
    assert_eq!(driver.cuMemHostRegister_v2(at, 8192, 0), 0);
    assert_eq!(driver.cuMemHostRegister_v2(at + 100, 10, 0), 712);
    assert_eq!(driver.cuMemHostUnregister(at), 0);
    assert_eq!(driver.cuMemHostUnregister(at), 713);
    assert_eq!(
        driver.cuMemHostRegister_v2(4096, 8192, 0),
        1,
        "no memory there"
    );
    assert_eq!(driver.cuMemHostRegister_v2(at, usize::MAX, 0), 1);

    let mut managed = 0;
    assert_eq!(driver.cuMemAllocManaged(&mut managed, 4096, 1), 0);
    assert_eq!(driver.cuMemsetD32_v2(managed, 5, 1024), 0);
    assert_eq!(driver.cuCtxSynchronize(), 0);
    // SAFETY: managed memory can be read by the host, and the fill is done.
    assert_eq!(unsafe { *(managed as *const u32) }, 5);
    assert_eq!(driver.cuMemFree_v2(managed), 0);
    assert_eq!(driver.live(), live);
}

#[test]
fn virtual_memory_maps_and_unmaps() {
    let driver = Driver::new();
    let (free, live) = (driver.free(), driver.live());
    let prop = AllocationProp::device(0);
    let mut granularity = 0;
    assert_eq!(
        driver.cuMemGetAllocationGranularity(&mut granularity, &prop, 0),
        0
    );
    assert_eq!(granularity, GRANULE);
    let hint = 0x7e00_0000_0000;
    let (mut base, mut other) = (0, 0);
    assert_eq!(
        driver.cuMemAddressReserve(&mut base, 4 * GRANULE, 0, hint, 0),
        0
    );
    assert_eq!(base, hint, "a free hint is honoured");
    assert_eq!(
        driver.cuMemAddressReserve(&mut other, 2 * GRANULE, 0, hint, 0),
        0
    );
    assert_ne!(other, hint, "a taken one is not");
    assert_eq!(driver.cuMemAddressReserve(&mut 0, 5, 0, 0, 0), 1);

    let (mut a, mut b) = (0, 0);
    assert_eq!(driver.cuMemCreate(&mut a, 2 * GRANULE, &prop, 0), 0);
    assert_eq!(driver.cuMemCreate(&mut b, GRANULE, &prop, 0), 0);
    assert_eq!(driver.free(), free - 3 * GRANULE);
    assert_eq!(driver.cuMemCreate(&mut 0, 1 << 40, &prop, 0), 2);
    assert_eq!(driver.cuMemMap(base, 2 * GRANULE, 0, a, 0), 0);
    assert_eq!(
        driver.cuMemMap(base + GRANULE as u64, GRANULE, 0, b, 0),
        1,
        "mapped already"
    );
    assert_eq!(
        driver.cuMemMap(base + 8 * GRANULE as u64, GRANULE, 0, b, 0),
        1,
        "not reserved"
    );
    assert_eq!(
        driver.cuMemMap(base + 2 * GRANULE as u64, GRANULE, 0, b, 0),
        0
    );
    assert_eq!(driver.cuMemsetD32_v2(base, 1, 4), 1, "no access yet");
    let open = [1, 0, 3];
    assert_eq!(driver.cuMemSetAccess(base, 3 * GRANULE, &open, 1), 0);
    assert_eq!(
        driver.cuMemSetAccess(base, 4 * GRANULE, &open, 1),
        1,
        "not all mapped"
    );
    assert_eq!(
        driver.cuMemsetD32_v2(base, 6, 3 * GRANULE / 4),
        0,
        "across both"
    );
    assert_eq!(driver.read(base + 3 * GRANULE as u64 - 4, 1), [6]);

    let mut same = 0;
    assert_eq!(driver.cuMemRetainAllocationHandle(&mut same, base + 8), 0);
    assert_eq!(same, a);
    assert_eq!(driver.cuMemRelease(same), 0);
    let (mut file, mut import) = (0, 0);
    assert_eq!(driver.cuMemExportToShareableHandle(&mut file, a, 1, 0), 0);
    assert_eq!(
        driver.cuMemImportFromShareableHandle(&mut import, file as usize, 1),
        0
    );
    // SAFETY: the export made this descriptor for us.
    drop(unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(file) });
    assert_eq!(driver.cuMemMap(other, GRANULE, 0, import, 0), 801, "a part");
    assert_eq!(driver.cuMemMap(other, 2 * GRANULE, 0, import, 0), 0);
    assert_eq!(driver.cuMemSetAccess(other, 2 * GRANULE, &open, 1), 0);
    assert_eq!(
        driver.read(other, 1),
        [6],
        "the same memory under another address"
    );

    assert_eq!(driver.cuMemRelease(a), 0);
    assert_eq!(driver.read(base, 1), [6], "a mapping keeps the memory");
    assert_eq!(
        driver.cuMemAddressFree(base, 4 * GRANULE),
        1,
        "still mapped"
    );
    assert_eq!(driver.cuMemUnmap(base, 3 * GRANULE), 0);
    assert_eq!(driver.cuMemUnmap(base, 3 * GRANULE), 0, "nothing to unmap");
    assert_eq!(driver.cuMemsetD32_v2(base, 1, 4), 1);
    assert_eq!(
        driver.cuMemAddressFree(base, GRANULE),
        1,
        "not the reservation"
    );
    assert_eq!(driver.cuMemAddressFree(base, 4 * GRANULE), 0);
    assert_eq!(driver.cuMemRelease(b), 0);
    assert_eq!(driver.cuMemRelease(b), 1);
    assert_eq!(driver.cuMemUnmap(other, 2 * GRANULE), 0);
    assert_eq!(driver.cuMemAddressFree(other, 2 * GRANULE), 0);
    assert_eq!(driver.cuMemRelease(import), 0);
    assert_eq!((driver.free(), driver.live()), (free, live));
}

#[test]
fn pools_give_back_in_stream_order() {
    let driver = Driver::new();
    let free = driver.free();
    let module = driver.module();
    let (fill, spin) = (
        driver.function(module, "fill_u32\0"),
        driver.function(module, "spin\0"),
    );
    let stream = driver.stream(1);
    let (mut address, mut pool, mut used) = (0, 0, 0_u64);
    assert_eq!(driver.cuMemAllocAsync(&mut address, 4096, stream), 0);
    assert_eq!(driver.cuDeviceGetDefaultMemPool(&mut pool, 0), 0);
    assert_eq!(driver.cuMemPoolGetAttribute(pool, 7, &mut used), 0);
    assert_eq!(used, 4096);
    assert_eq!(driver.launch(spin, stream, &[20_000]), 0);
    assert_eq!(driver.launch(fill, stream, &[address, 1, 1024]), 0);
    assert_eq!(driver.cuMemFreeAsync(address, stream), 0);
    assert_eq!(driver.cuMemFreeAsync(address, stream), 1);
    assert_eq!(
        driver.cuStreamSynchronize(stream),
        0,
        "the fill came before the free"
    );
    assert_eq!(driver.cuMemPoolGetAttribute(pool, 7, &mut used), 0);
    assert_eq!(used, 0);
    assert_eq!(driver.cuMemFreeAsync(address, stream), 1);
    assert_eq!(driver.cuModuleUnload(module), 0);
    assert_eq!(driver.free(), free);
}

#[test]
fn two_devices_copy_to_each_other() {
    let driver = Driver::with(&[("FAKEDEV_DEVICES", "2")]);
    let (mut first, mut second) = (0, 0);
    assert_eq!(driver.cuCtxGetCurrent(&mut first), 0);
    let a = driver.alloc(64);
    driver.write(a, &[4; 16]);
    assert_eq!(driver.cuDevicePrimaryCtxRetain(&mut second, 1), 0);
    assert_eq!(driver.cuCtxSetCurrent(second), 0);
    let full = driver.free();
    let b = driver.alloc(64);
    assert_eq!(driver.free(), full - 512, "charged to its own device");
    assert_eq!(driver.cuMemcpyPeer(b, second, a, first, 64), 0);
    assert_eq!(driver.read(b, 16), [4; 16]);
    let mut ordinal = -1_i32;
    assert_eq!(
        driver.cuPointerGetAttribute((&raw mut ordinal).cast(), 9, b),
        0
    );
    assert_eq!(ordinal, 1);
}
