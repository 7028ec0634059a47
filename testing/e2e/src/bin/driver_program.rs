//! A program that uses the CUDA driver API, as a user's would: it loads `libcuda.so.1` from
//! wherever the loader finds it, and knows nothing of Busbar.
//!
//! `driver_program random SEED STEPS` runs a random program that prints a trace; the other words
//! are small programs for tests of faults. What a run prints depends on its arguments alone, never
//! on addresses or time, so that a native and a remote run can be compared.

use busbar_e2e::driver::Driver;
use busbar_e2e::{checkpoint, quota, random};
use std::ffi::c_void;
use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

fn say(text: &str) {
    println!("{text}");
    let _ = std::io::stdout().flush();
}

fn wait_for_stdin() {
    let _ = std::io::stdin().lock().lines().next();
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| args.get(i).and_then(|a| a.parse::<u64>().ok()).unwrap_or(0);
    let d = Driver::load();
    match args.first().map(String::as_str) {
        Some("random") => random::run(&d, number(1), number(2)),
        Some("random-large") => random::large(&d, number(1) as usize, number(2)),
        Some("random-many") => random_many(&d),
        Some("random-lines") => random_lines(&d),
        Some("random-threads") => random::threads(&d, number(1), number(2)),
        Some("random-rows") => random::rows::run(&d, number(1), number(2)),
        Some("rows-until-refused") => random::rows::until_refused(&d),
        Some("random-devices") => random::devices::run(&d, number(1), number(2), number(3)),
        Some("apart") => random::apart::run(&d),
        Some("around") => random::apart::around(&d, number(1) as usize, number(2)),
        Some("one-is-cut-off") => random::apart::one_is_cut_off(&d),
        Some("one-dies") => random::apart::one_dies(&d),
        Some("checkpoint") => checkpoint::steps(&d, number(1) as i32, &args[2..]),
        Some("checkpoint-own") => checkpoint::own(&d),
        Some("answers") => checkpoint::answers(&d, number(1) as usize),
        Some("works") => checkpoint::works(&d, number(1) as usize),
        Some("dumps") => checkpoint::dumps(&d),
        Some("devices") => devices(&d),
        Some("hold") => hold(&d, number(1)),
        Some("work") => work(&d, number(1)),
        Some("copies") => copies(&d),
        Some("allocations") => allocations(&d),
        Some("graphs") => graphs(&d),
        Some("long-kernel") => long_kernel(&d),
        Some("clogged") => clogged(&d),
        Some("turns") => turns(&d, number(1)),
        Some("endless") => endless(&d),
        Some("until-error") => until_error(&d),
        Some("fork-before") => fork_before(&d),
        Some("fork-after") => fork_after(&d),
        Some("exec-after") => exec_after(&d, &args[1..]),
        Some("leave-child") => leave_child(&d, &args[1..]),
        Some("exit-while-calling") => exit_while_calling(d),
        Some("overtaking") => overtaking(&d),
        Some("page-locked") => page_locked(&d, number(1)),
        Some("in-place") => in_place(&d, number(1)),
        Some("init-again") => init_again(&d, number(1)),
        Some("quota") => quota::run(&d, number(1), number(2), args.get(3)),
        Some("quota-graphs") => quota::graphs(&d),
        Some("quota-hidden") => quota::hidden(&d),
        Some("quota-again") => quota::again(&d),
        Some("quota-streams") => quota::streams(&d),
        Some("quota-each") => quota::each(&d),
        Some("deep-queue") => deep_queue(&d),
        Some("processors") => processors(&d),
        Some("host-functions") => host_functions(&d),
        _ => {
            eprintln!("usage: driver_program random SEED STEPS | ...");
            std::process::exit(2);
        }
    }
}

/// Runs a random program for each line of its stdin, `SEED STEPS BYTES`, each in a process of its
/// own, and prints the end of its trace.
fn random_many(d: &Driver) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let numbers: Vec<u64> = line.split(' ').filter_map(|n| n.parse().ok()).collect();
        let [seed, steps, most] = numbers[..] else {
            panic!("not a program: {line:?}");
        };
        // SAFETY: one thread, which has called nothing of the driver.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // One that hangs ends, and says so by its status.
            // SAFETY: no preconditions.
            unsafe { libc::alarm(60) };
            say(&random::whole(d, seed, steps, most));
            std::process::exit(0);
        }
        let mut status = 0;
        // SAFETY: the child is this process's own.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        say(&format!("seed {seed} status {status:#x}"));
    }
}

/// Runs a random program for each line of its stdin, `SEED STEPS BYTES`, all of them in this
/// process, and prints the end of its trace.
fn random_lines(d: &Driver) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let numbers: Vec<u64> = line.split(' ').filter_map(|n| n.parse().ok()).collect();
        let [seed, steps, most] = numbers[..] else {
            panic!("not a program: {line:?}");
        };
        say(&random::whole(d, seed, steps, most));
    }
}

/// Prints the devices, or the error of `cuInit`.
fn devices(d: &Driver) {
    let rc = d.cuInit(0);
    let mut n = -1;
    let count = d.cuDeviceGetCount(&mut n);
    say(&format!("init {rc} count {count} {n}"));
    for ordinal in 0..n.max(0) {
        let (mut dev, mut uuid) = (0, [0; 16]);
        d.cuDeviceGet(&mut dev, ordinal);
        d.cuDeviceGetUuid_v2(&mut uuid, dev);
        say(&format!("device {uuid:02x?}"));
    }
}

/// Says how many processors the first device has, and in the end what copying comes to.
fn processors(d: &Driver) {
    const MULTIPROCESSORS: i32 = 16;
    d.begin();
    let (mut n, p) = (0, d.alloc(64));
    assert_eq!(d.cuDeviceGetAttribute(&mut n, MULTIPROCESSORS, 0), 0);
    say(&format!("processors {n}"));
    wait_for_stdin();
    let mut back = [0u8; 64];
    let rc = d.cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), p, 64);
    say(&format!("after {rc}"));
}

/// Says where a function is that it gives to nobody, and has another run again and again, until a
/// call fails.
fn host_functions(d: &Driver) {
    unsafe extern "C" fn given(ran: *mut c_void) {
        // SAFETY: what the function was given with.
        unsafe { &*ran.cast::<AtomicU32>() }.fetch_add(1, Ordering::AcqRel);
    }
    unsafe extern "C" fn secret(_: *mut c_void) {
        say("the secret function runs");
    }
    d.begin();
    say(&format!("secret {}", secret as *const () as usize));
    let ran: &AtomicU32 = Box::leak(Box::default());
    let mut asked = 0;
    let rc = loop {
        let data = std::ptr::from_ref(ran).cast_mut().cast();
        let rc = match d.cuLaunchHostFunc(0, given, data) {
            0 => d.cuStreamSynchronize(0),
            e => e,
        };
        asked += 1;
        if rc != 0 || asked == 500 {
            break rc;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    // What was asked for without right has time to run.
    std::thread::sleep(std::time::Duration::from_millis(200));
    let ran = ran.load(Ordering::Acquire);
    say(&format!(
        "asked {asked} too often {} error {rc}",
        ran.saturating_sub(asked)
    ));
}

/// Takes memory, and holds it until its stdin ends.
fn hold(d: &Driver, mib: u64) {
    d.begin();
    let p = d.alloc((mib << 20) as usize);
    assert_eq!(d.cuMemsetD8_v2(p, 7, (mib << 20) as usize), 0);
    assert_eq!(d.cuCtxSynchronize(), 0);
    say("holding");
    wait_for_stdin();
    let mut back = [0u8; 16];
    let rc = d.cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), p, 16);
    say(&format!("after {rc} {back:?}"));
}

/// Computes in small steps, each read back, until its stdin ends or `steps` are done; prints a
/// digest.
fn work(d: &Driver, steps: u64) {
    d.begin();
    let n = 1 << 16;
    let p = d.alloc(n * 8);
    assert_eq!(d.cuMemsetD8_v2(p, 0, n * 8), 0);
    let f = d.function("scramble\0");
    let mut digest = 0u64;
    for i in 0..steps {
        assert_eq!(d.launch(f, 0, &[p, i + 1, n as u64]), 0, "step {i}");
        let mut back = vec![0u64; n];
        let rc = d.cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), p, n * 8);
        assert_eq!(rc, 0, "step {i}");
        digest = back.iter().fold(digest, |h, x| h.rotate_left(5) ^ x);
        if i % 16 == 0 {
            say(&format!("step {i}"));
        }
    }
    say(&format!("digest {digest:016x}"));
}

/// Copies to the device and back for ever.
fn copies(d: &Driver) {
    d.begin();
    let n = 32 << 20;
    let p = d.alloc(n);
    let mut bytes = vec![1u8; n];
    say("busy");
    loop {
        assert_eq!(d.cuMemcpyHtoD_v2(p, bytes.as_ptr().cast(), n), 0);
        assert_eq!(d.cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), p, n), 0);
    }
}

/// Takes memory, touches it and gives it back for ever.
fn allocations(d: &Driver) {
    d.begin();
    let n = 64 << 20;
    say("busy");
    loop {
        let all = [(); 8].map(|()| d.alloc(n));
        for p in all {
            assert_eq!(d.cuMemsetD8_v2(p, 1, n), 0);
            assert_eq!(d.cuMemFree_v2(p), 0);
        }
    }
}

/// Launches a graph for ever.
fn graphs(d: &Driver) {
    const RELAXED: i32 = 2;
    d.begin();
    let n = 1 << 16;
    let p = d.alloc(n * 8);
    let f = d.function("scramble\0");
    let (mut stream, mut graph, mut exec) = (0, 0, 0);
    assert_eq!(d.cuStreamCreate(&mut stream, 1), 0);
    assert_eq!(d.cuStreamBeginCapture_v2(stream, RELAXED), 0);
    for i in 0..20 {
        assert_eq!(d.launch(f, stream, &[p, i + 1, n as u64]), 0);
    }
    assert_eq!(d.cuStreamEndCapture(stream, &mut graph), 0);
    assert_eq!(d.cuGraphInstantiateWithFlags(&mut exec, graph, 0), 0);
    say("busy");
    loop {
        for _ in 0..16 {
            assert_eq!(d.cuGraphLaunch(exec, stream), 0);
        }
        assert_eq!(d.cuStreamSynchronize(stream), 0);
    }
}

/// Begins a kernel that takes an hour. A launch is not answered: whoever hears of it and kills this
/// program would else kill what has not left it. So there is an answered call behind it.
fn start_long_kernel(d: &Driver) -> u64 {
    const HOUR: u64 = 3_600_000_000;
    d.begin();
    let p = d.alloc(256 << 20);
    assert_eq!(d.launch(d.function("spin\0"), 0, &[HOUR]), 0);
    let (mut free, mut total) = (0, 0);
    assert_eq!(d.cuMemGetInfo_v2(&mut free, &mut total), 0);
    p
}

/// Waits for a kernel that takes an hour.
fn long_kernel(d: &Driver) {
    start_long_kernel(d);
    say("busy");
    d.cuCtxSynchronize();
}

/// Has kernels of so many microseconds run one after another until its stdin ends, and says how
/// many that were.
fn turns(d: &Driver, us: u64) {
    d.begin();
    let f = d.function("spin\0");
    let mut other = 0;
    assert_eq!(d.cuStreamCreate(&mut other, 1), 0);
    let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let told = over.clone();
    std::thread::spawn(move || {
        wait_for_stdin();
        told.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    say("turning");
    // There is always something to run while the program waits for what was before.
    let mut events = [0, 0];
    for e in &mut events {
        assert_eq!(d.cuEventCreate(e, 2), 0);
    }
    let mut done = 0u64;
    // One round at least: who is stopped before the first one is told to end before it, too.
    loop {
        for _ in 0..10 {
            assert_eq!(d.launch(f, other, &[us]), 0);
        }
        done += 10;
        assert_eq!(d.cuEventRecord(events[0], other), 0);
        events.swap(0, 1);
        assert_eq!(d.cuEventSynchronize(events[0]), 0);
        if over.load(std::sync::atomic::Ordering::Relaxed) {
            break;
        }
    }
    assert_eq!(d.cuStreamSynchronize(other), 0);
    say(&format!("done {done}"));
}

/// Waits for a kernel without an end, and says what comes of it.
fn endless(d: &Driver) {
    start_long_kernel(d);
    say("busy");
    let rc = d.cuCtxSynchronize();
    let mut p = 0;
    say(&format!("ended {rc} then {}", d.cuMemAlloc_v2(&mut p, 64)));
}

/// Copies more than anything on the way can hold to where a kernel runs that takes an hour.
fn clogged(d: &Driver) {
    let p = start_long_kernel(d);
    let bytes = vec![1u8; 256 << 20];
    say("busy");
    loop {
        d.cuMemcpyHtoDAsync_v2(p, bytes.as_ptr().cast(), bytes.len(), 0);
    }
}

/// Calls until a call fails, and says with what error.
fn until_error(d: &Driver) {
    d.begin();
    let p = d.alloc(4096);
    say("calling");
    let mut back = [0u8; 64];
    let rc = loop {
        let rc = d.cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), p, 64);
        if rc != 0 {
            break rc;
        }
    };
    let mut q = 0;
    let next = d.cuMemAlloc_v2(&mut q, 64);
    say(&format!(
        "error {rc} then {}",
        if next == 0 { "none" } else { "an error" }
    ));
}

/// Runs `f` in a child process, and returns its exit status.
fn in_child(f: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child calls what a forked child of a threaded program may be expected to call,
    // which is what is tested, and leaves without exit handlers.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            let code = f();
            libc::_exit(code);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(pid, &raw mut status, 0), pid);
        assert!(
            libc::WIFEXITED(status),
            "the child did not exit: {status:#x}"
        );
        libc::WEXITSTATUS(status)
    }
}

/// Forks before initialization: both sides work.
fn fork_before(d: &Driver) {
    let child = in_child(|| {
        d.begin();
        d.check_memory();
        0
    });
    d.begin();
    d.check_memory();
    say(&format!("child {child}"));
}

/// Forks after initialization: the child gets what CUDA gives it, and the parent goes on.
fn fork_after(d: &Driver) {
    d.begin();
    let p = d.alloc(4096);
    assert_eq!(d.cuMemsetD8_v2(p, 9, 4096), 0);
    for round in 0..4 {
        let code = in_child(|| {
            let mut q = 0;
            let (init, alloc) = (d.cuInit(0), d.cuMemAlloc_v2(&mut q, 64));
            if init == 3 && alloc == 3 { 33 } else { 1 }
        });
        let mut back = [0u8; 4096];
        assert_eq!(d.cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), p, 4096), 0);
        say(&format!(
            "round {round} child {code} parent {}",
            back == [9; 4096]
        ));
    }
}

/// Takes memory, and becomes another program when its stdin ends.
fn exec_after(d: &Driver, command: &[String]) {
    d.begin();
    d.alloc(64 << 20);
    say("holding");
    wait_for_stdin();
    let e = Command::new(&command[0]).args(&command[1..]).exec();
    panic!("exec: {e}");
}

/// Takes memory, leaves a child behind that lives on, and ends when its stdin ends. With a command
/// the child becomes that; without, it just stays.
fn leave_child(d: &Driver, command: &[String]) {
    d.begin();
    d.alloc(64 << 20);
    // SAFETY: the child calls what the child of a threaded program may call, as far as is possible.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        if command.is_empty() {
            std::thread::sleep(std::time::Duration::from_secs(600));
            std::process::exit(0);
        }
        let e = Command::new(&command[0]).args(&command[1..]).exec();
        panic!("exec: {e}");
    }
    say(&format!("child {pid}"));
    wait_for_stdin();
}

/// Returns from main while other threads are in calls.
fn exit_while_calling(d: Driver) {
    d.begin();
    let d: &'static Driver = Box::leak(Box::new(d));
    let p = d.alloc(1 << 20);
    for _ in 0..4 {
        std::thread::spawn(move || {
            d.make_current();
            let mut back = vec![0u8; 1 << 20];
            while d.cuMemcpyDtoH_v2(back.as_mut_ptr().cast(), p, 1 << 20) == 0 {}
            loop {
                std::thread::park();
            }
        });
    }
    std::thread::sleep(std::time::Duration::from_millis(50));
    say("leaving");
}

/// A copy that returns has waited for its stream: no other stream overtakes it, and what that
/// stream did in the program's memory can be seen.
fn overtaking(d: &Driver) {
    const N: usize = 4096;
    const NON_BLOCKING: u32 = 1;
    const LONG: u64 = 200_000;
    d.begin();
    let (a, b) = (d.alloc(N), d.alloc(N));
    let (spin, copy) = (d.function("spin\0"), d.function("copy\0"));
    let mut other = 0;
    assert_eq!(d.cuStreamCreate(&mut other, NON_BLOCKING), 0);
    for (round, len) in [N, 64, N / 2].into_iter().enumerate() {
        let fresh = vec![round as u8 + 1; len];
        assert_eq!(d.launch(spin, 0, &[LONG]), 0);
        assert_eq!(d.cuMemcpyHtoD_v2(a, fresh.as_ptr().cast(), len), 0);
        assert_eq!(d.launch(copy, other, &[b, a, len as u64]), 0);
        let mut back = vec![0u8; len];
        assert_eq!(d.cuStreamSynchronize(other), 0);
        let rc = d.cuMemcpyDtoHAsync_v2(back.as_mut_ptr().cast(), b, len, other);
        assert_eq!((rc, d.cuStreamSynchronize(other)), (0, 0));
        say(&format!("round {round} in order: {}", back == fresh));
    }
    let mut pinned = 0;
    assert_eq!(d.cuMemHostAlloc(&mut pinned, N, 0), 0);
    // SAFETY: page-locked memory of that length, which no copy writes yet.
    unsafe { (pinned as *mut u8).write_bytes(0xff, N) };
    assert_eq!(d.launch(spin, 0, &[LONG]), 0);
    assert_eq!(d.cuMemsetD8Async(b, 9, N, 0), 0);
    assert_eq!(d.cuMemcpyDtoHAsync_v2(pinned as *mut _, b, N, 0), 0);
    assert_eq!(d.cuMemcpyHtoD_v2(a, [1u8; 64].as_ptr().cast(), 64), 0);
    // SAFETY: as above; the copy before has waited for the one that writes.
    let seen = unsafe { std::slice::from_raw_parts(pinned as *const u8, N) };
    say(&format!("seen: {}", seen == [9; N]));
}

/// Copies between page-locked memory and a device, again and again, in memory that is freed and
/// taken anew in between.
fn in_place(d: &Driver, times: u64) {
    const N: usize = (3 << 20) + 13;
    d.begin();
    let mut there = 0;
    assert_eq!(d.cuMemAlloc_v2(&mut there, N), 0);
    for round in 0..times {
        let (mut from, mut to) = (0, 0);
        for p in [&mut from, &mut to] {
            assert_eq!(d.cuMemHostAlloc(p, N, 0), 0);
        }
        // SAFETY: page-locked memory of that length, which no copy is under way to.
        let bytes = unsafe { std::slice::from_raw_parts_mut(from as *mut u8, N) };
        for (i, b) in bytes.iter_mut().enumerate() {
            *b = (i as u64 * 7 + (i as u64 >> 9) + round) as u8;
        }
        assert_eq!(d.cuMemcpyHtoDAsync_v2(there, from as *const _, N, 0), 0);
        assert_eq!(d.cuMemcpyDtoHAsync_v2(to as *mut _, there, N, 0), 0);
        assert_eq!(d.cuStreamSynchronize(0), 0);
        // SAFETY: as above.
        let back = unsafe { std::slice::from_raw_parts(to as *const u8, N) };
        say(&format!("round {round} came back: {}", back == bytes));
        for p in [from, to] {
            assert_eq!(d.cuMemFreeHost(p), 0);
        }
    }
}

/// Threads take page-locked memory, write it, look at it and free it, `times` times each. Prints in
/// how many rounds one found other bytes than its own.
fn page_locked(d: &Driver, times: u64) {
    const THREADS: u8 = 4;
    d.begin();
    let one = |tag: u8| {
        d.make_current();
        let mut others = 0;
        for round in 0..times {
            let (n, mut p) = (1 + (round as usize * 997) % 5000, 0);
            assert_eq!(d.cuMemHostAlloc(&mut p, n, 0), 0, "cuMemHostAlloc");
            // SAFETY: page-locked memory of that length, which nobody else uses.
            unsafe { (p as *mut u8).write_bytes(tag, n) };
            std::thread::yield_now();
            // SAFETY: as above.
            let seen = unsafe { std::slice::from_raw_parts(p as *const u8, n) };
            others += usize::from(seen.iter().any(|b| *b != tag));
            assert_eq!(d.cuMemFreeHost(p), 0, "cuMemFreeHost");
        }
        others
    };
    let all: usize = std::thread::scope(|s| {
        let threads: Vec<_> = (1..=THREADS).map(|tag| s.spawn(move || one(tag))).collect();
        let others = |t: std::thread::ScopedJoinHandle<'_, usize>| t.join().expect("it ends well");
        threads.into_iter().map(others).sum()
    });
    say(&format!("bytes of others: {all}"));
}

/// Initializes `times` times, and waits for its stdin to end.
fn init_again(d: &Driver, times: u64) {
    let last = (0..times).map(|_| d.cuInit(0)).last();
    say(&format!("init {last:?}"));
    wait_for_stdin();
}

/// Queues far more work than can be done soon, and waits.
fn deep_queue(d: &Driver) {
    d.begin();
    let spin = d.function("spin\0");
    for _ in 0..3000 {
        assert_eq!(d.launch(spin, 0, &[20_000]), 0);
    }
    say("queued");
    d.cuCtxSynchronize();
}
