//! What goes wrong by itself, and what goes wrong on command.

mod common;

use common::Driver;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

#[test]
fn a_failed_kernel_breaks_its_context_until_it_is_reset() {
    for (kernel, words, code) in [
        ("trap\0", vec![], 719),
        ("assert\0", vec![0], 710),
        ("probe\0", vec![64, 1], 700),
        ("fill_u32\0", vec![2, 0, 1], 700),
    ] {
        let driver = Driver::new();
        let module = driver.module();
        let function = driver.function(module, kernel);
        assert_eq!(
            driver.launch(function, 0, &words),
            0,
            "a launch itself does not fail"
        );
        assert_eq!(driver.cuCtxSynchronize(), code);
        assert_eq!(driver.cuCtxSynchronize(), code, "and it stays so");
        assert_eq!(driver.cuMemAlloc_v2(&mut 0, 16), code);
        assert_eq!(driver.launch(function, 0, &words), code);
        assert_eq!(driver.cuDevicePrimaryCtxReset_v2(0), 0);
        assert_eq!(driver.cuCtxSynchronize(), 0);
        driver.alloc(16);
    }
}

#[test]
fn a_kernel_must_not_read_past_an_allocation() {
    let driver = Driver::new();
    let module = driver.module();
    let probe = driver.function(module, "probe\0");
    let address = driver.alloc(100);
    assert_eq!(driver.launch(probe, 0, &[address, 100]), 0);
    assert_eq!(driver.cuCtxSynchronize(), 0);
    assert_eq!(driver.launch(probe, 0, &[address, 101]), 0);
    assert_eq!(driver.cuCtxSynchronize(), 700);
}

#[test]
fn a_broken_context_leaves_others_alone() {
    let driver = Driver::new();
    let mut second = 0;
    let trap = driver.function(driver.module(), "trap\0");
    assert_eq!(driver.launch(trap, 0, &[]), 0);
    assert_eq!(driver.cuCtxSynchronize(), 719);
    assert_eq!(driver.cuCtxCreate_v2(&mut second, 0, 0), 0);
    assert_eq!(driver.cuCtxSynchronize(), 0);
    driver.alloc(16);
    assert_eq!(driver.cuCtxDestroy_v2(second), 0);
    assert_eq!(driver.cuCtxSynchronize(), 719);
}

#[test]
fn the_nth_call_fails_on_command() {
    let driver = Driver::with(&[("FAKEDEV_FAULTS", "cuMemAlloc_v2@3=2, cuLaunchKernel@2=719s")]);
    let code: Vec<i32> = (0..4).map(|_| driver.cuMemAlloc_v2(&mut 0, 64)).collect();
    assert_eq!(code, [0, 0, 2, 0]);
    let nop = driver.function(driver.module(), "nop\0");
    assert_eq!(driver.launch(nop, 0, &[]), 0);
    assert_eq!(driver.cuCtxSynchronize(), 0);
    assert_eq!(driver.launch(nop, 0, &[]), 719);
    assert_eq!(driver.cuCtxSynchronize(), 719, "sticky");
}

#[test]
fn a_slow_call_still_works() {
    let driver = Driver::with(&[("FAKEDEV_FAULTS", "cuMemAlloc_v2@1=slow:5ms")]);
    driver.alloc(64);
}

#[test]
fn the_device_can_be_lost() {
    let driver = Driver::with(&[("FAKEDEV_FAULTS", "lost@4=46")]);
    // cuInit, retain and set current were three.
    driver.alloc(64);
    assert_eq!(driver.cuMemAlloc_v2(&mut 0, 64), 46);
    assert_eq!(driver.cuCtxSynchronize(), 46);
    assert_eq!(driver.cuDevicePrimaryCtxReset_v2(0), 46);
    assert_eq!(
        driver.cuGetErrorName(46, &mut std::ptr::null()),
        0,
        "names can still be asked"
    );
}

#[test]
fn a_rule_that_cannot_be_read_is_an_error() {
    for bad in [
        "cuMemAlloc_v2",
        "cuMemAlloc_v2@x=2",
        "cuMemAlloc_v2@1=slow:5",
        "lost@",
        "a@1=b",
    ] {
        assert_eq!(
            Driver::bare(&[("FAKEDEV_FAULTS", bad)]).cuInit(0),
            1,
            "{bad}"
        );
    }
}

#[test]
fn each_call_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let driver = Driver::with(&[("FAKEDEV_LOG", path.to_str().unwrap())]);
    driver.alloc(64);
    assert_eq!(driver.cuGreenCtxDestroy(1), 801);
    let log = fs::read_to_string(&path).unwrap();
    let expected = [
        "cuInit",
        "cuDevicePrimaryCtxRetain",
        "cuCtxSetCurrent",
        "cuMemAlloc_v2",
        "cuGreenCtxDestroy",
    ];
    assert_eq!(log.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn no_devices_is_an_answer() {
    assert_eq!(Driver::bare(&[("FAKEDEV_DEVICES", "0")]).cuInit(0), 100);
}

/// The settings come from the environment too, and the counts come when the process ends: so one of
/// this file's own tests runs in a process of its own.
#[test]
fn counts_are_logged_when_the_process_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let done = Command::new(env::current_exe().unwrap())
        .args(["--exact", "a_kernel_must_not_read_past_an_allocation"])
        .env("FAKEDEV_LOG", &path)
        .output()
        .unwrap();
    assert!(done.status.success());
    let log = fs::read_to_string(&path).unwrap();
    let counts: Vec<&str> = log
        .lines()
        .filter(|line| line.starts_with("#count "))
        .collect();
    assert!(
        counts
            .iter()
            .any(|line| line.ends_with(" cuLaunchKernel 2")),
        "{log}"
    );
    assert_eq!(
        log.lines().filter(|line| *line == "cuLaunchKernel").count(),
        2
    );
}

#[test]
fn memory_can_be_freed_under_a_running_kernel() {
    let driver = Driver::new();
    let module = driver.module();
    let probe = driver.function(module, "probe\0");
    let mut context = 0;
    assert_eq!(driver.cuCtxGetCurrent(&mut context), 0);
    let address = driver.alloc(1 << 20);
    std::thread::scope(|scope| {
        let driver = &driver;
        scope.spawn(move || {
            assert_eq!(driver.cuCtxSetCurrent(context), 0);
            // An end for when the free has failed, which the scope would not tell before.
            let end = Instant::now() + Duration::from_secs(60);
            // Each is waited for: the free would stand behind a queue that only grows.
            let probes = || {
                driver.launch(probe, 2, &[address, 1 << 20]) == 0
                    && driver.cuStreamSynchronize(2) == 0
            };
            while probes() && Instant::now() < end {}
        });
        // The free may win or lose the race; either way, the other thread's next probe fails.
        assert!(matches!(driver.cuMemFree_v2(address), 0 | 700));
    });
    assert_eq!(driver.cuCtxSynchronize(), 700);
}
