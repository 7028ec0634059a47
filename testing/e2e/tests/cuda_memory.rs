//! Memory that a program and kernels, or two programs, share: on the simulated driver.

use busbar_e2e::{Server, python, run, text};

#[test]
fn managed_mapped_and_registered_memory_read_as_they_do_natively() {
    let server = Server::start_fakedev();
    let expected = run(&mut python("cuda_shadow.py", "fakedev", ""));
    assert!(expected.status.success(), "{}", text(&expected));
    for _ in 0..3 {
        let got = run(&mut python("cuda_shadow.py", "cuda", &server.address));
        assert_eq!(text(&got), text(&expected));
        assert_eq!(got.status.code(), Some(0));
    }
}

#[test]
fn two_processes_share_memory_by_handle_and_nobody_without_one() {
    let server = Server::start_fakedev();
    let got = run(&mut python("cuda_ipc.py", "cuda", &server.address));
    let part = |first: u32, size: usize| {
        format!(
            "same True\nchild reads [{first}, {first}, {first}, {first}] True {size}\n\
             closed twice 1\nmade up 1\nwrong secret 1\nwrong worker 1\n  0\n\
             parent reads [42, 42, {first}, {first}]\n"
        )
    };
    let expected = part(1000, 1000) + &part(3 << 20, 3 << 20) + "not ours 1\n";
    assert_eq!(text(&got), expected);
}
