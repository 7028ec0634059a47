//! Threads of a program: their own default streams, their small stacks, memory that is not there.

use super::api::{Api, at};
use std::io::Write;
use std::sync::mpsc::channel;

const PER_THREAD: u64 = 2;

/// A thread's own default stream is of the context that is current, also when another thread has
/// put a new one in the place of the last.
pub fn own_streams(api: &Api) {
    let first = api.made("cuCtxCreate_v2", &[0, 0]);
    let (to, turns) = channel::<u64>();
    let (done, when) = channel::<()>();
    std::thread::scope(|s| {
        s.spawn(move || {
            for ctx in turns {
                assert_eq!(api.call("cuCtxSetCurrent", &[ctx]), 0);
                let p = api.made("cuMemAlloc_v2", &[4096]);
                api.tell("cuMemsetD8Async", &[p, 7, 4096, PER_THREAD]);
                api.tell("cuStreamSynchronize", &[PER_THREAD]);
                let mut of = 0u64;
                api.tell("cuStreamGetCtx", &[PER_THREAD, at(&mut of)]);
                println!("its context: {}", of == ctx);
                let mut back = [0u8; 4];
                api.tell("cuMemcpyDtoH_v2", &[at(&mut back), p, 4]);
                println!("{back:?}");
                done.send(()).expect("the main thread listens");
            }
        });
        let turn = |ctx| {
            to.send(ctx).expect("the thread lives");
            when.recv().expect("the thread does its work");
        };
        turn(first);
        let mut last = first;
        for _ in 0..3 {
            api.tell("cuCtxDestroy_v2", &[last]);
            last = api.made("cuCtxCreate_v2", &[0, 0]);
            turn(last);
        }
        drop(to);
    });
}

/// Launches whose long parameters come again and again, from two threads at once: each has what it
/// gave, also where only a few bytes have changed, as an optimizer's numbers do.
pub fn repeats(api: &Api) {
    const LAST: usize = 1023;
    let ctx = api.made("cuCtxCreate_v2", &[0, 0]);
    let all = api.kernel("some");
    // The same twelve at each round, one whose number changes, and one that comes only once.
    let value_of = |of: u64, i: u64, round: u64| match i {
        12 => u64::from((round as f32 + 1.5).to_bits()),
        13 => round << 8 | of,
        _ => i * 10 + of,
    };
    let run = move |of: u64| {
        assert_eq!(api.call("cuCtxSetCurrent", &[ctx]), 0);
        let stream = api.made("cuStreamCreate", &[1]);
        let p = api.made("cuMemAlloc_v2", &[64 << 10]);
        let mut wrong = 0;
        for round in 0..200u64 {
            for i in 0..14u64 {
                let value = value_of(of, i, round);
                let (at, value, n) = (p + i * 64, value as u32, 16u64);
                let mut tail = [i as u8; 1024];
                tail[LAST] = if i == 12 { round as u8 } else { 0 };
                let list = [
                    std::ptr::from_ref(&at).cast::<u8>(),
                    std::ptr::from_ref(&value).cast(),
                    std::ptr::from_ref(&n).cast(),
                    tail.as_ptr(),
                ];
                let args = [all, 1, 1, 1, 1, 1, 1, 0, stream, list.as_ptr() as u64, 0];
                assert_eq!(api.call("cuLaunchKernel", &args), 0);
            }
            let mut back = [0u32; 14 * 16];
            let args = [at(&mut back), p, size_of_val(&back) as u64, stream];
            assert_eq!(api.call("cuMemcpyDtoHAsync_v2", &args), 0);
            assert_eq!(api.call("cuStreamSynchronize", &[stream]), 0);
            for (i, got) in back.chunks(16).enumerate() {
                let want = value_of(of, i as u64, round);
                wrong += got.iter().filter(|v| **v != want as u32).count();
            }
        }
        wrong
    };
    let wrong = std::thread::scope(|s| {
        let other = s.spawn(|| run(1));
        [run(0), other.join().expect("it ends")]
    });
    println!("wrong: {wrong:?}");
}

/// Copies of page-locked memory whose bytes come again and again, from two threads at once. What a
/// copy reads may change once it is done.
pub fn copies_again(api: &Api) {
    const N: usize = 50_000;
    let ctx = api.made("cuCtxCreate_v2", &[0, 0]);
    let run = move |of: u8| {
        assert_eq!(api.call("cuCtxSetCurrent", &[ctx]), 0);
        let stream = api.made("cuStreamCreate", &[1]);
        let p = api.made("cuMemAlloc_v2", &[N as u64 * 4]);
        let host = api.made("cuMemHostAlloc", &[N as u64 * 4, 0]);
        let mut wrong = 0;
        for round in 0..100u32 {
            // Three that are the same each time, the last of which begins to change in one byte.
            let bytes = |i: usize| {
                let mut b: Vec<u8> = (0..N).map(|k| (k * (i + 3)) as u8 ^ of).collect();
                if i == 2 && round > 50 {
                    b[N - 13] = round as u8;
                }
                if i == 3 {
                    b.fill(round as u8);
                }
                b
            };
            for i in 0..4 {
                let (from, to) = (host + (i * N) as u64, p + (i * N) as u64);
                // SAFETY: page-locked memory of that size, which no copy reads any more.
                let place = unsafe { std::slice::from_raw_parts_mut(from as *mut u8, N) };
                place.copy_from_slice(&bytes(i));
                assert_eq!(
                    api.call("cuMemcpyHtoDAsync_v2", &[to, from, N as u64, stream]),
                    0
                );
            }
            assert_eq!(api.call("cuStreamSynchronize", &[stream]), 0);
            for i in 0..4 {
                let mut back = vec![0u8; N];
                let from = p + (i * N) as u64;
                assert_eq!(
                    api.call(
                        "cuMemcpyDtoH_v2",
                        &[back.as_mut_ptr() as u64, from, N as u64]
                    ),
                    0
                );
                wrong += usize::from(back != bytes(i));
            }
        }
        wrong
    };
    let wrong = std::thread::scope(|s| {
        let other = s.spawn(|| run(1));
        [run(0), other.join().expect("it ends")]
    });
    println!("wrong: {wrong:?}");
}

unsafe extern "C" fn nap(_: *mut std::ffi::c_void) {
    std::thread::sleep(std::time::Duration::from_micros(200));
}

/// A file is read and written at once, into memory that kernels use and out of it, while other
/// threads have work done.
pub fn files(api: &Api) {
    const LEN: usize = 3000;
    let ctx = api.made("cuCtxCreate_v2", &[0, 0]);
    let [fill, copy] = ["fill", "copy"].map(|k| api.kernel(k));
    let over = std::sync::atomic::AtomicBool::new(false);
    let disturb = |held: bool| {
        assert_eq!(api.call("cuCtxSetCurrent", &[ctx]), 0);
        let stream = api.made("cuStreamCreate", &[1]);
        let [m, d] = ["cuMemAllocManaged", "cuMemAlloc_v2"].map(|f| api.made(f, &[8192, 1]));
        for i in 0u64.. {
            if over.load(std::sync::atomic::Ordering::Relaxed) {
                break;
            }
            if held {
                let f = nap as *const () as u64;
                assert_eq!(api.call("cuLaunchHostFunc", &[stream, f, 0]), 0);
            }
            assert_eq!(api.launch(fill, stream, &[m, i, 100]), 0);
            assert_eq!(api.launch(fill, stream, &[d, i, 100]), 0);
            if i % 8 == 0 {
                assert_eq!(api.call("cuStreamSynchronize", &[stream]), 0);
            }
        }
    };
    let (mut wrong, mut stale) = ([0; 6], [0; 3]);
    std::thread::scope(|s| {
        let _others = [false, true].map(|held| {
            let disturb = &disturb;
            s.spawn(move || disturb(held))
        });
        // SAFETY: a name that lives, and a file of our own.
        let file = unsafe { libc::memfd_create(c"words".as_ptr(), 0) };
        let stream = api.made("cuStreamCreate", &[1]);
        // From the end of a page to another one's beginning.
        let memory = [
            api.made("cuMemAllocManaged", &[3 * 4096, 1]),
            api.made("cuMemHostAlloc", &[200 << 10, 2]),
        ];
        let device = api.made("cuMemAlloc_v2", &[LEN as u64]);
        for round in 1..60u64 {
            let m = memory[round as usize % 2] + 3900;
            assert_eq!(api.launch(fill, stream, &[m, round, LEN as u64 / 4]), 0);
            assert_eq!(api.call("cuStreamSynchronize", &[stream]), 0);
            let p = m as *mut libc::c_void;
            let v = [0, 1].map(|i| libc::iovec {
                iov_base: p.wrapping_byte_add(i * 500),
                iov_len: [500, LEN - 500][i],
            });
            // SAFETY: memory of that length, which no work uses now.
            let done = unsafe {
                [
                    libc::pwrite(file, p, LEN, 0),
                    libc::pread(file, p, LEN + 4, 0),
                    libc::pwritev(file, v.as_ptr(), 2, 0),
                    libc::preadv(file, v.as_ptr(), 2, 0),
                    libc::lseek(file, 0, libc::SEEK_SET) as isize + libc::write(file, p, LEN),
                    libc::lseek(file, 0, libc::SEEK_SET) as isize
                        + libc::readv(file, v.as_ptr(), 2),
                ]
            };
            for (w, n) in wrong.iter_mut().zip(done) {
                *w += usize::from(n != LEN as isize);
            }
            // What kernels wrote is in the file, what the file has is in the memory, and kernels
            // see that.
            let has = |words: &[u32], value: u64| words.iter().all(|w| u64::from(*w) == value);
            let mut own = [0u32; LEN / 4];
            let all = size_of_val(&own);
            // SAFETY: memory of this function's, and as above.
            unsafe {
                libc::pread(file, own.as_mut_ptr().cast(), all, 0);
                stale[0] += usize::from(!has(&own, round));
                own.fill(1000 + round as u32);
                libc::pwrite(file, own.as_ptr().cast(), all, 0);
                libc::pread(file, p, LEN, 0);
                let seen = std::slice::from_raw_parts(m as *const u32, own.len());
                stale[1] += usize::from(!has(seen, 1000 + round));
            }
            assert_eq!(api.launch(copy, stream, &[device, m, LEN as u64]), 0);
            assert_eq!(api.call("cuStreamSynchronize", &[stream]), 0);
            let args = [own.as_mut_ptr() as u64, device, LEN as u64];
            assert_eq!(api.call("cuMemcpyDtoH_v2", &args), 0);
            stale[2] += usize::from(!has(&own, 1000 + round));
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    println!("in part: {wrong:?}, stale: {stale:?}");
}

/// A process leaves at once, as children of Python's `multiprocessing` do. Before it one leaves
/// that has its memory, as a child does while it has not become another program.
#[allow(deprecated)] // The child calls one function, which ends it.
pub fn leaves(api: &Api) {
    api.made("cuCtxCreate_v2", &[0, 0]);
    // SAFETY: the child does nothing but leave.
    unsafe {
        let child = libc::vfork();
        if child == 0 {
            libc::_exit(5);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        println!("child: {}", libc::WEXITSTATUS(status));
    }
    let memory = api.made("cuMemAlloc_v2", &[4096]);
    api.tell("cuMemsetD8_v2", &[memory, 1, 4096]);
    api.tell("cuCtxSynchronize", &[]);
    // What is printed is the program's own to see to.
    std::io::stdout().flush().expect("someone reads");
    // SAFETY: ends the process.
    unsafe { libc::_exit(3) };
}

/// All kinds of calls from threads with as little stack as programs give them.
pub fn small_stacks(api: &Api) {
    let ctx = api.made("cuCtxCreate_v2", &[0, 0]);
    for round in 0..3u64 {
        let run = move || {
            assert_eq!(api.call("cuCtxSetCurrent", &[ctx]), 0);
            let n = 100_000 + round;
            let stream = api.made("cuStreamCreate", &[1]);
            let event = api.made("cuEventCreate", &[2]);
            let fill = api.kernel("fill");
            let [p, q] = [1u64, 8 << 20].map(|more| api.made("cuMemAlloc_v2", &[n + more]));
            let host = api.made("cuMemHostAlloc", &[n, 0]);
            let managed = api.made("cuMemAllocManaged", &[4096, 1]);
            println!("launch: {}", api.launch(fill, stream, &[p, round, 1000]));
            println!(
                "launch: {}",
                api.launch(fill, stream, &[managed, round, 100])
            );
            api.tell("cuEventRecord", &[event, stream]);
            api.tell("cuStreamWaitEvent", &[PER_THREAD, event, 0]);
            api.tell("cuMemcpyHtoDAsync_v2", &[p, host, n, stream]);
            api.tell("cuMemcpyDtoHAsync_v2", &[host, p, n, stream]);
            let mut bytes = vec![round as u8; 8 << 20];
            for some in [100, 70_000, 8 << 20] {
                api.tell("cuMemcpyHtoD_v2", &[q, at(&mut bytes[0]), some]);
                api.tell("cuMemcpyDtoH_v2", &[at(&mut bytes[0]), q, some]);
            }
            let (mut graph, mut exec) = (0u64, 0u64);
            api.tell("cuStreamBeginCapture_v2", &[stream, 1]);
            println!("launch: {}", api.launch(fill, stream, &[p, round, 1000]));
            api.tell("cuStreamEndCapture", &[stream, at(&mut graph)]);
            api.tell("cuGraphInstantiateWithFlags", &[at(&mut exec), graph, 0]);
            api.tell("cuGraphLaunch", &[exec, stream]);
            api.tell("cuEventSynchronize", &[event]);
            api.tell("cuCtxSynchronize", &[]);
            // SAFETY: managed memory, and no kernel runs.
            println!("{}", unsafe { *(managed as *const u32) });
            let mut name = 0u64;
            api.tell("cuGetErrorName", &[700, at(&mut name)]);
            api.tell("cuMemFreeHost", &[host]);
            api.tell("cuMemFree_v2", &[p]);
            api.tell("cuStreamDestroy_v2", &[stream]);
        };
        std::thread::scope(|s| {
            let small = std::thread::Builder::new().stack_size(64 << 10);
            let t = small.spawn_scoped(s, run).expect("a thread starts");
            t.join().expect("the thread ends well");
        });
    }
}

/// Memory of the program with a hole in its midst, which a driver would fall over.
pub fn holes(api: &Api, out: bool) {
    const N: usize = 16 << 20;
    api.made("cuCtxCreate_v2", &[0, 0]);
    let d = api.made("cuMemAlloc_v2", &[N as u64]);
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, part of which goes again.
    let p = unsafe {
        let p = libc::mmap(std::ptr::null_mut(), N, rights, flags, -1, 0);
        libc::munmap(p.byte_add(N / 4), N / 4);
        p as u64
    };
    let rc = match out {
        true => api.call("cuMemcpyDtoH_v2", &[p, d, N as u64]),
        false => api.call("cuMemcpyHtoD_v2", &[d, p, N as u64]),
    };
    println!("refused: {}", rc != 0);
    println!("over: {}", api.call("cuCtxSynchronize", &[]) != 0);
}
