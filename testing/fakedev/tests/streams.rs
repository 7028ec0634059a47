//! Streams run on their own; order holds where it must and only there.
//!
//! No test measures time: what must not have happened yet is held back by a value in memory that
//! the test itself sets free.

mod common;

use common::Driver;
use std::ffi::c_void;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

const EQUAL: u32 = 1;

/// A word that streams wait for and the test sets: it keeps work back for as long as the test
/// likes.
struct Gate<'a> {
    driver: &'a Driver,
    address: u64,
}

impl<'a> Gate<'a> {
    fn new(driver: &'a Driver) -> Gate<'a> {
        let mut address = 0;
        assert_eq!(driver.cuMemHostAlloc(&mut address, 4, 0), 0);
        Gate { driver, address }
    }

    fn hold(&self, stream: usize) {
        assert_eq!(
            self.driver
                .cuStreamWaitValue32_v2(stream, self.address, 1, EQUAL),
            0
        );
    }

    fn open(&self) {
        // SAFETY: the gate's memory is never freed, and all use of it is atomic.
        unsafe { (*(self.address as *const AtomicU32)).store(1, Ordering::Release) };
    }
}

#[test]
fn launches_return_before_they_run() {
    let driver = Driver::new();
    let module = driver.module();
    let fill = driver.function(module, "fill_u32\0");
    let (stream, out, gate) = (driver.stream(1), driver.alloc(64), Gate::new(&driver));
    gate.hold(stream);
    for value in 0..100 {
        assert_eq!(driver.launch(fill, stream, &[out, value, 16]), 0);
    }
    assert_eq!(driver.cuStreamQuery(stream), 600);
    assert_eq!(driver.stat(1), 0, "nothing ran");
    gate.open();
    assert_eq!(driver.cuStreamSynchronize(stream), 0);
    assert_eq!(driver.cuStreamQuery(stream), 0);
    assert_eq!(driver.read(out, 1), [99], "in order");
}

#[test]
fn streams_run_beside_each_other() {
    let driver = Driver::new();
    let (a, b, gate) = (driver.stream(0), driver.stream(0), Gate::new(&driver));
    gate.hold(a);
    // The second stream opens the gate of the first: this ends only if both run.
    assert_eq!(driver.cuStreamWriteValue32_v2(b, gate.address, 1, 0), 0);
    assert_eq!(driver.cuStreamSynchronize(a), 0);
    assert_eq!(driver.cuStreamSynchronize(b), 0);
}

#[test]
fn the_legacy_stream_and_blocking_streams_wait_for_each_other() {
    let driver = Driver::new();
    let (blocking, free, gate) = (driver.stream(0), driver.stream(1), Gate::new(&driver));
    let out = driver.alloc(64);
    gate.hold(blocking);
    assert_eq!(driver.cuMemsetD32Async(out, 1, 16, 0), 0);
    let later = driver.stream(0);
    assert_eq!(driver.cuMemsetD32Async(out, 2, 16, later), 0);
    assert_eq!(driver.cuStreamQuery(0), 600, "the legacy stream waits");
    assert_eq!(
        driver.cuStreamQuery(later),
        600,
        "and who comes after it too"
    );
    assert_eq!(driver.cuMemsetD32Async(out + 32, 3, 1, free), 0);
    assert_eq!(
        driver.cuStreamSynchronize(free),
        0,
        "a non-blocking stream does not"
    );
    gate.open();
    assert_eq!(driver.cuStreamSynchronize(later), 0);
    assert_eq!(driver.read(out, 1), [2]);
}

#[test]
fn the_calling_threads_stream_is_its_own() {
    let driver = Driver::new();
    let (per_thread, gate) = (2, Gate::new(&driver));
    let mut context = 0;
    assert_eq!(driver.cuCtxGetCurrent(&mut context), 0);
    gate.hold(per_thread);
    assert_eq!(driver.cuStreamQuery(per_thread), 600);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(driver.cuCtxSetCurrent(context), 0);
            assert_eq!(
                driver.cuStreamSynchronize(per_thread),
                0,
                "another thread's is idle"
            );
        });
    });
    gate.open();
    assert_eq!(driver.cuCtxSynchronize(), 0);
}

#[test]
fn events_order_and_measure() {
    let driver = Driver::new();
    let (a, b, gate) = (driver.stream(1), driver.stream(1), Gate::new(&driver));
    let (begin, end, out) = (driver.event(), driver.event(), driver.alloc(64));
    assert_eq!(driver.cuEventQuery(begin), 0, "never recorded");
    assert_eq!(driver.cuEventRecord(begin, a), 0);
    gate.hold(a);
    assert_eq!(driver.cuMemsetD32Async(out, 1, 16, a), 0);
    assert_eq!(driver.cuEventRecord(end, a), 0);
    assert_eq!(driver.cuStreamWaitEvent(b, end, 0), 0);
    assert_eq!(driver.cuMemsetD32Async(out, 2, 16, b), 0);
    assert_eq!(driver.cuEventQuery(end), 600);
    assert_eq!(driver.cuStreamQuery(b), 600);
    let mut ms = -1.0;
    assert_eq!(driver.cuEventElapsedTime(&mut ms, begin, end), 600);
    assert_eq!(driver.cuEventDestroy_v2(begin), 0);
    gate.open();
    assert_eq!(driver.cuStreamSynchronize(b), 0);
    assert_eq!(driver.cuEventSynchronize(end), 0);
    assert_eq!(driver.read(out, 1), [2]);
    assert_eq!(
        driver.cuEventElapsedTime(&mut ms, begin, end),
        400,
        "destroyed"
    );
    assert_eq!(driver.cuEventElapsedTime(&mut ms, end, end), 0);
    assert_eq!(ms, 0.0);
    let mut silent = 0;
    assert_eq!(driver.cuEventCreate(&mut silent, 2), 0);
    assert_eq!(driver.cuEventRecord(silent, a), 0);
    assert_eq!(
        driver.cuEventElapsedTime(&mut ms, silent, end),
        400,
        "keeps no time"
    );
}

static CALLS: Mutex<Vec<(usize, i32)>> = Mutex::new(Vec::new());

unsafe extern "C" fn note(user: *mut c_void) {
    CALLS.lock().unwrap().push((user.addr(), -1));
}

unsafe extern "C" fn note_status(_stream: usize, status: i32, user: *mut c_void) {
    CALLS.lock().unwrap().push((user.addr(), status));
}

#[test]
fn host_functions_run_in_order() {
    let driver = Driver::new();
    let (stream, gate) = (driver.stream(1), Gate::new(&driver));
    gate.hold(stream);
    let tag = ptr::without_provenance_mut::<c_void>;
    assert_eq!(driver.cuLaunchHostFunc(stream, note, tag(1)), 0);
    assert_eq!(
        driver.cuStreamAddCallback(stream, note_status, tag(2), 0),
        0
    );
    assert!(CALLS.lock().unwrap().is_empty());
    gate.open();
    assert_eq!(driver.cuStreamSynchronize(stream), 0);
    let module = driver.module();
    let trap = driver.function(module, "trap\0");
    let gate = Gate::new(&driver);
    gate.hold(stream);
    assert_eq!(driver.launch(trap, stream, &[]), 0);
    let other = driver.stream(1);
    // Handed in before the failure: the callback learns of it, the host function is left out.
    let event = driver.event();
    assert_eq!(driver.cuEventRecord(event, stream), 0);
    assert_eq!(driver.cuStreamWaitEvent(other, event, 0), 0);
    assert_eq!(driver.cuLaunchHostFunc(other, note, tag(3)), 0);
    assert_eq!(driver.cuStreamAddCallback(other, note_status, tag(4), 0), 0);
    gate.open();
    assert_eq!(driver.cuCtxSynchronize(), 719);
    assert_eq!(*CALLS.lock().unwrap(), [(1, -1), (2, 0), (4, 719)]);
}

#[test]
fn pageable_memory_is_read_at_the_call_and_pinned_memory_later() {
    let driver = Driver::new();
    let (stream, gate, out) = (driver.stream(1), Gate::new(&driver), driver.alloc(8));
    let mut pinned = 0;
    assert_eq!(driver.cuMemHostAlloc(&mut pinned, 4, 0), 0);
    let mut pageable = Box::new(1_u32);
    // SAFETY: the driver allocated these four bytes, and the host alone touches them now.
    unsafe { *(pinned as *mut u32) = 1 };
    gate.hold(stream);
    let from = ptr::from_mut(&mut *pageable).cast_const().cast();
    assert_eq!(driver.cuMemcpyHtoDAsync_v2(out, from, 4, stream), 0);
    let from = pinned as *const c_void;
    assert_eq!(driver.cuMemcpyHtoDAsync_v2(out + 4, from, 4, stream), 0);
    *pageable = 2;
    // SAFETY: as above; the stream is held back.
    unsafe { *(pinned as *mut u32) = 2 };
    gate.open();
    assert_eq!(driver.cuStreamSynchronize(stream), 0);
    assert_eq!(driver.read(out, 2), [1, 2]);
    let mut back = 0_u32;
    let to = (&raw mut back).cast();
    assert_eq!(driver.cuMemcpyDtoHAsync_v2(to, out + 4, 4, stream), 0);
    assert_eq!(
        back, 2,
        "a copy to pageable memory is done when the call returns"
    );
}

#[test]
fn a_destroyed_stream_finishes_its_work() {
    let driver = Driver::new();
    let (live, gate, out) = (driver.stat(3), Gate::new(&driver), driver.alloc(4));
    let stream = driver.stream(0);
    gate.hold(stream);
    assert_eq!(driver.cuMemsetD32Async(out, 8, 1, stream), 0);
    assert_eq!(driver.cuStreamDestroy_v2(stream), 0);
    assert_eq!(driver.cuStreamDestroy_v2(stream), 400);
    assert_eq!(driver.cuStreamSynchronize(stream), 400);
    assert_eq!(driver.stat(3), live);
    gate.open();
    assert_eq!(driver.cuCtxSynchronize(), 0);
    assert_eq!(driver.read(out, 1), [8]);
}

#[test]
fn priorities_are_kept_in_their_range() {
    let driver = Driver::new();
    let (mut stream, mut priority) = (0, 1);
    assert_eq!(driver.cuStreamCreateWithPriority(&mut stream, 1, -77), 0);
    assert_eq!(
        (driver.cuStreamGetPriority(stream, &mut priority), priority),
        (0, -5)
    );
    assert_eq!(driver.cuStreamCreate(&mut stream, 8), 1);
}

#[test]
fn many_threads_use_one_context() {
    let driver = Driver::new();
    let module = driver.module();
    let fill = driver.function(module, "fill_u32\0");
    let mut context = 0;
    assert_eq!(driver.cuCtxGetCurrent(&mut context), 0);
    let free = driver.free();
    std::thread::scope(|scope| {
        for value in 0..8 {
            let driver = &driver;
            scope.spawn(move || {
                assert_eq!(driver.cuCtxSetCurrent(context), 0);
                for round in 0..50 {
                    let (stream, out) = (driver.stream(round % 2), driver.alloc(4096));
                    assert_eq!(driver.launch(fill, stream, &[out, value, 1024]), 0);
                    assert_eq!(driver.cuStreamSynchronize(stream), 0);
                    assert_eq!(driver.read(out, 1024), [value as u32; 1024]);
                    assert_eq!(driver.cuMemFree_v2(out), 0);
                    assert_eq!(driver.cuStreamDestroy_v2(stream), 0);
                }
            });
        }
    });
    assert_eq!(driver.free(), free);
}
