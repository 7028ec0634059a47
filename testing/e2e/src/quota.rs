//! A program that takes device memory in all ways and threads that there are, and is content with
//! being told that there is no more.

use crate::driver::{Driver, IMAGE};
use crate::random::apart::{contexts, counted_by_nvml};
use std::sync::atomic::{AtomicU64, Ordering};

const THREADS: u64 = 16;
const OUT_OF_MEMORY: i32 = 2;
const UNIT: u64 = 2 << 20;
const WAYS: u64 = 12;
/// The way whose memory the program does not name.
const MODULE: u64 = 6;
const LIBRARY: u64 = 7;
/// A pool of device 0's memory.
const POOL: [u64; 11] = [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Memory of a kind, by what gives it back.
enum Piece {
    Linear(u64),
    Pooled(u64),
    Physical(u64),
    Array(usize),
    Module(usize),
    Library(usize),
    Mipmapped(usize),
}

/// Takes `size` bytes in one of the ways, one of which is a pool of the thread's own, and two are
/// this image.
fn take(d: &Driver, image: &str, pool: usize, way: u64, size: u64) -> Result<Piece, i32> {
    fn done<T>(rc: i32, piece: T) -> Result<T, i32> {
        if rc == 0 { Ok(piece) } else { Err(rc) }
    }
    let (mut p, mut handle, n) = (0u64, 0usize, size as usize);
    match way {
        0 => done(d.cuMemAlloc_v2(&mut p, n), ()).map(|()| Piece::Linear(p)),
        1 => done(d.cuMemAllocManaged(&mut p, n, 1), ()).map(|()| Piece::Linear(p)),
        2 => done(d.cuMemAllocAsync(&mut p, n, 0), ()).map(|()| Piece::Pooled(p)),
        3 => {
            let pinned_on_device_0 = [1, 0, 1, 0, 0, 0, 0, 0];
            let rc = d.cuMemCreate(&mut p, n, &pinned_on_device_0, 0);
            done(rc, ()).map(|()| Piece::Physical(p))
        }
        4 => {
            // Bytes of one channel: 1 MiB a row of 1024.
            let rc = d.cuArrayCreate_v2(&mut handle, &[1024, size / 1024, 1 | 1 << 32]);
            done(rc, ()).map(|()| Piece::Array(handle))
        }
        5 => {
            let mut pitch = 0;
            let rc = d.cuMemAllocPitch_v2(&mut p, &mut pitch, 512, n / 512, 4);
            done(rc, ()).map(|()| Piece::Linear(p))
        }
        LIBRARY => {
            let (image, none) = (image.as_ptr().cast(), std::ptr::null_mut);
            let rc = d.cuLibraryLoadData(&mut handle, image, none(), none(), 0, none(), none(), 0);
            done(rc, ()).map(|()| Piece::Library(handle))
        }
        8 => {
            let rc = d.cuMemAllocFromPoolAsync(&mut p, n, pool, 0);
            done(rc, ()).map(|()| Piece::Pooled(p))
        }
        9 | 10 => {
            // 64 by 64 bytes of one channel, and as many of them as it takes.
            let cube = [64, 64, size / 4096, 1 | 1 << 32, 0];
            let (rc, piece) = if way == 9 {
                let rc = d.cuArray3DCreate_v2(&mut handle, &cube);
                (rc, Piece::Array(handle))
            } else {
                let rc = d.cuMipmappedArrayCreate(&mut handle, &cube, 1);
                (rc, Piece::Mipmapped(handle))
            };
            done(rc, piece)
        }
        11 => done(of_graph(d, size, false, &mut p), ()).map(|()| Piece::Pooled(p)),
        _ => {
            let rc = d.cuModuleLoadData(&mut handle, image.as_ptr().cast());
            done(rc, ()).map(|()| Piece::Module(handle))
        }
    }
}

/// Memory that a launch leaves, whose graph is gone; or that it frees itself.
fn of_graph(d: &Driver, size: u64, frees: bool, address: &mut u64) -> i32 {
    let (mut graph, mut node, mut exec) = (0, 0, 0);
    let mut params = [0; 15];
    params[..POOL.len()].copy_from_slice(&POOL);
    params[13] = size;
    assert_eq!(d.cuGraphCreate(&mut graph, 0), 0);
    let after = std::ptr::null();
    let mut rc = d.cuGraphAddMemAllocNode(&mut node, graph, after, 0, &mut params);
    *address = params[14];
    if rc == 0 && frees {
        let mut last = 0;
        rc = d.cuGraphAddMemFreeNode(&mut last, graph, &node, 1, *address);
    }
    if rc == 0 {
        rc = d.cuGraphInstantiateWithFlags(&mut exec, graph, 0);
    }
    if rc == 0 {
        rc = d.cuGraphLaunch(exec, 0);
        assert_eq!(d.cuGraphExecDestroy(exec), 0);
    }
    assert_eq!(d.cuGraphDestroy(graph), 0);
    rc
}

fn give_back(d: &Driver, piece: Piece) {
    let rc = match piece {
        Piece::Linear(p) => d.cuMemFree_v2(p),
        Piece::Pooled(p) => d.cuMemFreeAsync(p, 0),
        Piece::Physical(p) => d.cuMemRelease(p),
        Piece::Array(a) => d.cuArrayDestroy(a),
        Piece::Module(m) => d.cuModuleUnload(m),
        Piece::Library(l) => d.cuLibraryUnload(l),
        Piece::Mipmapped(m) => d.cuMipmappedArrayDestroy(m),
    };
    assert_eq!(rc, 0, "memory is given back");
}

/// Takes and gives back at random; says what the device has, and how often there was no more. A
/// real device takes an image from a file.
///
/// # Panics
/// When the program has more than the device says that there is.
pub fn run(d: &Driver, seed: u64, steps: u64, file: Option<&String>) {
    let read = |file| std::fs::read_to_string(file).expect("an image");
    let image = &file.map_or(IMAGE.to_owned(), |file| read(file) + "\0");
    d.begin();
    let (mut free, mut total, mut all) = (0, 0, 0);
    assert_eq!(d.cuMemGetInfo_v2(&mut free, &mut total), 0);
    assert_eq!(d.cuDeviceTotalMem_v2(&mut all, 0), 0);
    println!("total {total} device {all} free {free}");
    let (held, most, refused) = (AtomicU64::new(0), free as u64, AtomicU64::new(0));
    std::thread::scope(|s| {
        for thread in 0..THREADS {
            let (held, refused) = (&held, &refused);
            s.spawn(move || {
                d.make_current();
                let mut pool = 0;
                assert_eq!(d.cuMemPoolCreate(&mut pool, &POOL), 0);
                let mut state = seed.wrapping_mul(THREADS).wrapping_add(thread);
                let mut below = |n: u64| {
                    state = state
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    (state >> 33) % n
                };
                let mut pieces = Vec::new();
                for _ in 0..steps {
                    let way = below(WAYS);
                    let size = match way {
                        MODULE | LIBRARY => 0,
                        _ => UNIT * (1 + below(16)),
                    };
                    match take(d, image, pool, way, size) {
                        Ok(piece) => {
                            let now = held.fetch_add(size, Ordering::AcqRel) + size;
                            assert!(now <= most, "{now} bytes of {most}");
                            pieces.push((piece, size));
                        }
                        Err(rc) => {
                            assert_eq!(rc, OUT_OF_MEMORY, "way {way}");
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    if below(5) < 2 && !pieces.is_empty() {
                        let at = below(pieces.len() as u64) as usize;
                        let (piece, size) = pieces.swap_remove(at);
                        held.fetch_sub(size, Ordering::AcqRel);
                        give_back(d, piece);
                    }
                }
                for (piece, size) in pieces {
                    held.fetch_sub(size, Ordering::AcqRel);
                    give_back(d, piece);
                }
                assert_eq!(d.cuCtxSynchronize(), 0);
                assert_eq!(d.cuMemPoolDestroy(pool), 0);
            });
        }
    });
    assert_eq!(d.cuCtxSynchronize(), 0);
    println!("refused {}", refused.into_inner());
}

/// Takes of each device what there is of it, in several ways: what there was, and how much came.
pub fn each(d: &Driver) {
    const PIECE: u64 = 32 << 20;
    let contexts = contexts(d);
    println!("NVML: {}", counted_by_nvml());
    for context in &contexts {
        let (mut free, mut total, mut taken) = (0, 0, 0);
        assert_eq!(d.cuCtxSetCurrent(*context), 0);
        assert_eq!(d.cuMemGetInfo_v2(&mut free, &mut total), 0);
        while [0, 2, 4]
            .into_iter()
            .any(|way| take(d, IMAGE, 0, way, PIECE).is_ok())
        {
            taken += PIECE;
        }
        let of = [total, free, taken as usize].map(|n| n >> 20);
        println!("total {} free {} taken {}", of[0], of[1], of[2]);
    }
}

const MIB: u64 = 1 << 20;

/// What is free, in MiB.
fn free(d: &Driver) -> u64 {
    let (mut free, mut total) = (0, 0);
    assert_eq!(d.cuMemGetInfo_v2(&mut free, &mut total), 0);
    free as u64 / MIB
}

/// What is free, in MiB: at first; behind graphs that had 300 of it, one of which has left them
/// behind; when those are freed, too; when 400 are taken, for which the driver has to give back
/// what it keeps for graphs.
pub fn graphs(d: &Driver) {
    d.begin();
    let (mut left, mut p) = (0, 0);
    let mut all = vec![free(d)];
    assert_eq!(of_graph(d, 300 * MIB, true, &mut p), 0);
    all.push(free(d));
    assert_eq!(of_graph(d, 300 * MIB, false, &mut left), 0);
    all.push(free(d));
    assert_eq!(of_graph(d, 300 * MIB, false, &mut p), OUT_OF_MEMORY);
    assert_eq!(d.cuMemFreeAsync(left, 0), 0);
    all.push(free(d));
    assert_eq!(d.cuMemAlloc_v2(&mut p, 400 << 20), 0);
    all.push(free(d));
    println!("{all:?}");
    assert_eq!(d.cuMemFree_v2(p), 0);
    captured(d);
}

/// What [`hidden`] says with a part of 1 GiB, of which the driver's own tables are half.
pub const HIDDEN: &str = "[512, 448, 184, 184, 184, 184, 120, 56, 320, 256]\n\
                          [0, 2, 0, 2, 2, 2, 0, 0, 0, 0, 0]\n";

/// What a driver takes without being asked, each with what is free then, in MiB: variables of a
/// module; local memory of kernels, which there is once and then not enough of; as many modules
/// and libraries as there is room for.
pub fn hidden(d: &Driver) {
    const STACK_SIZE: u32 = 0;
    const IMAGE: &[u8] = b"fakedev-module 1\nkernel deep nop\nlocal deep 2048\n\
        kernel deeper nop\nlocal deeper 4096\nglobal room 67108864\n\0";
    d.begin();
    let (mut all, mut refused) = (vec![free(d)], Vec::new());
    let (mut module, mut library) = (0, 0);
    let image = IMAGE.as_ptr().cast();
    assert_eq!(d.cuModuleLoadData(&mut module, image), 0);
    all.push(free(d));
    let mut launch = |name: &std::ffi::CStr| {
        let mut f = 0;
        assert_eq!(d.cuModuleGetFunction(&mut f, module, name.as_ptr()), 0);
        let none = std::ptr::null_mut();
        let rc = d.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, 0, none, none);
        assert_eq!(d.cuCtxSynchronize(), 0);
        refused.push(rc);
        free(d)
    };
    all.extend([launch(c"deep"), launch(c"deeper"), launch(c"deep")]);
    refused.extend([4096, usize::MAX].map(|n| d.cuCtxSetLimit(STACK_SIZE, n)));
    all.push(free(d));
    while d.cuModuleLoadData(&mut module, image) == 0 {
        all.push(free(d));
    }
    let none = std::ptr::null_mut;
    let load = |library: &mut usize| {
        d.cuLibraryLoadData(library, image, none(), none(), 0, none(), none(), 0)
    };
    refused.push(load(&mut library));
    // Below what there is at first nothing comes back.
    refused.extend([0, 1024].map(|n| d.cuCtxSetLimit(STACK_SIZE, n)));
    all.push(free(d));
    refused.push(load(&mut library));
    let (mut kernel, mut f) = (0, 0);
    refused.push(d.cuLibraryGetKernel(&mut kernel, library, c"deep".as_ptr()));
    refused.push(d.cuKernelGetFunction(&mut f, kernel));
    all.push(free(d));
    println!("{all:?}\n{refused:?}");
}

/// What a stream is told that has 300 MiB, works, frees them, and takes as much twice.
pub fn again(d: &Driver) {
    const MICROSECONDS: u64 = 500_000;
    d.begin();
    let (mut stream, mut p, spin) = (0, 0, d.function("spin\0"));
    assert_eq!(d.cuStreamCreate(&mut stream, 1), 0);
    let mut said = vec![d.cuMemAllocAsync(&mut p, 300 << 20, stream)];
    assert_eq!(d.launch(spin, stream, &[MICROSECONDS]), 0);
    assert_eq!(d.cuMemFreeAsync(p, stream), 0);
    said.extend([0, 1].map(|_| d.cuMemAllocAsync(&mut p, 300 << 20, stream)));
    assert_eq!(d.cuCtxSynchronize(), 0);
    println!("{said:?} {}", free(d));
}

/// What two streams are told that are made, of which the driver refuses the first, and whoever
/// waits afterwards.
pub fn streams(d: &Driver) {
    d.begin();
    let mut stream = 0;
    let made = [0, 1].map(|_| d.cuStreamCreate(&mut stream, 1));
    println!("{made:?} {}", d.cuCtxSynchronize());
}

/// What is free: when 100 MiB that a capture allocates can be had; when a launch has left them and
/// the graph is gone; when another graph has freed them; when the driver has given them back.
fn captured(d: &Driver) {
    let (mut stream, mut graph, mut exec, mut node, mut p) = (0, 0, 0, 0, 0);
    assert_eq!(d.cuStreamCreate(&mut stream, 1), 0);
    assert_eq!(d.cuStreamBeginCapture_v2(stream, 0), 0);
    assert_eq!(d.cuMemAllocAsync(&mut p, 100 << 20, stream), 0);
    assert_eq!(d.cuStreamEndCapture(stream, &mut graph), 0);
    assert_eq!(d.cuGraphInstantiateWithFlags(&mut exec, graph, 0), 0);
    let mut all = vec![free(d)];
    assert_eq!(d.cuGraphLaunch(exec, stream), 0);
    assert_eq!(d.cuGraphExecDestroy(exec), 0);
    all.push(free(d));
    let (mut other, after) = (0, std::ptr::null());
    assert_eq!(d.cuGraphCreate(&mut other, 0), 0);
    assert_eq!(d.cuGraphAddMemFreeNode(&mut node, other, after, 0, p), 0);
    assert_eq!(d.cuGraphInstantiateWithFlags(&mut exec, other, 0), 0);
    assert_eq!(d.cuGraphLaunch(exec, stream), 0);
    assert_eq!(d.cuStreamSynchronize(stream), 0);
    all.push(free(d));
    assert_eq!(d.cuDeviceGraphMemTrim(0), 0);
    all.push(free(d));
    println!("{all:?}");
}
