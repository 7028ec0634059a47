//! System calls that a worker in a sandbox cannot make, whatever code runs in it: new sockets but
//! local ones, looking into other processes, and parts of the kernel that no driver needs and that
//! others have got out by.

use std::io;

/// Calls that fail as if one had no right to them.
const DENIED: &[i64] = &[
    // Ways around this filter: a ring of calls that it does not see, another process's descriptors.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_pidfd_getfd,
    libc::SYS_open_by_handle_at,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    // The kernel itself.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
];
/// What makes a namespace of a new process, as `unshare` does for this one.
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;
/// Sockets that there may be: drivers speak to daemons of theirs and to the kernel.
const FAMILIES: [i32; 2] = [libc::AF_UNIX, libc::AF_NETLINK];
/// And of these there may be pairs.
const OF_PAIRS: [i32; 1] = [libc::AF_UNIX];
/// And these, in a network in which there is nobody but the tenant's own workers.
const OF_A_NETWORK: [i32; 2] = [libc::AF_INET, libc::AF_INET6];

/// The one set of calls that is known here; those of others, 32-bit ones, say, do not exist.
const ARCHITECTURE: u32 = 0xc000_003e;
/// Numbers from here on are of x32, a second way to the same calls.
const X32: u32 = 0x4000_0000;
// Places in what a filter is given.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;

fn step(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    let code = code as u16;
    libc::sock_filter { code, jt, jf, k }
}

fn load(at: u32) -> libc::sock_filter {
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at, 0, 0)
}

fn end(how: u32) -> libc::sock_filter {
    step(libc::BPF_RET | libc::BPF_K, how, 0, 0)
}

/// Ends with `how` if what was loaded is `k`.
fn end_if(k: u32, how: u32) -> [libc::sock_filter; 2] {
    [
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, k, 0, 1),
        end(how),
    ]
}

/// Leaves out what follows for all calls but one.
fn only_for(call: i64, what: &[libc::sock_filter]) -> libc::sock_filter {
    let is = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    step(is, call as u32, 0, what.len() as u8)
}

fn program(network: bool) -> Vec<libc::sock_filter> {
    let no = |e: i32| libc::SECCOMP_RET_ERRNO | e as u32;
    let jump = libc::BPF_JMP | libc::BPF_K;
    let mut all = vec![
        load(ARCH),
        step(jump | libc::BPF_JEQ, ARCHITECTURE, 1, 0),
        end(no(libc::ENOSYS)),
        load(NUMBER),
        step(jump | libc::BPF_JGE, X32, 0, 1),
        end(no(libc::ENOSYS)),
    ];
    let denied = DENIED
        .iter()
        .flat_map(|n| end_if(*n as u32, no(libc::EPERM)));
    all.extend(denied);
    // What this one is asked for lies in memory, where a filter does not look. Libraries make their
    // threads by the older call then.
    all.extend(end_if(libc::SYS_clone3 as u32, no(libc::ENOSYS)));
    let clone = [
        load(FIRST_ARGUMENT),
        step(jump | libc::BPF_JSET, NAMESPACES as u32, 0, 1),
        end(no(libc::EPERM)),
        end(libc::SECCOMP_RET_ALLOW),
    ];
    all.push(only_for(libc::SYS_clone, &clone));
    all.extend(clone);
    let local = |f: &[i32]| {
        let may = |f: &i32| end_if(*f as u32, libc::SECCOMP_RET_ALLOW);
        let mut sockets = vec![load(FIRST_ARGUMENT)];
        sockets.extend(f.iter().flat_map(may));
        sockets.push(end(no(libc::EACCES)));
        sockets
    };
    let pairs = local(&OF_PAIRS);
    all.push(only_for(libc::SYS_socketpair, &pairs));
    all.extend(pairs);
    let mut families = FAMILIES.to_vec();
    if network {
        families.extend(OF_A_NETWORK);
    }
    let sockets = local(&families);
    all.push(only_for(libc::SYS_socket, &sockets));
    all.extend(sockets);
    all.push(end(libc::SECCOMP_RET_ALLOW));
    all
}

/// Takes these calls from this thread and those that it starts. New rights must have been given up
/// before. With a `network` of its own there may be sockets in it.
pub fn install(network: bool) -> io::Result<()> {
    let mut all = program(network);
    let program = libc::sock_fprog {
        len: all.len() as u16,
        filter: all.as_mut_ptr(),
    };
    // Some kernels make a process with a filter slower for what it could learn of others'.
    let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    let set = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: a pointer to a live program of the length given.
    match unsafe { libc::syscall(libc::SYS_seccomp, set, flags, &raw const program) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a call of four arguments came to: 0, or the error's number.
    fn call(number: i64, args: [i64; 4]) -> i32 {
        let [a, b, c, d] = args;
        // SAFETY: the caller's calls are given no pointers but null and live ones.
        match unsafe { libc::syscall(number, a, b, c, d) } {
            // A process that should not be: it has nothing to do.
            // SAFETY: no preconditions.
            0 if number == libc::SYS_clone => unsafe { libc::_exit(0) },
            n if n >= 0 => 0,
            _ => io::Error::last_os_error().raw_os_error().unwrap_or(-1),
        }
    }

    /// Runs something on a thread behind the filter, which is for that thread alone.
    fn filtered<T: Send>(network: bool, f: impl FnOnce() -> T + Send) -> Option<T> {
        let run = || {
            // SAFETY: a plain system call.
            unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
            install(network).is_ok().then(f)
        };
        let ran = std::thread::scope(|s| s.spawn(run).join().expect("no panic"));
        if ran.is_none() {
            eprintln!("not tested: this machine takes no filter");
        }
        ran
    }

    #[test]
    fn no_process_is_started_in_a_new_namespace_and_threads_are_started_as_ever() {
        let tried = || {
            let kinds = [libc::CLONE_NEWUSER, libc::CLONE_NEWNS, libc::CLONE_NEWNET];
            let made = kinds.map(|k| {
                let flags = i64::from(k | libc::SIGCHLD);
                call(libc::SYS_clone, [flags, 0, 0, 0])
            });
            // Its arguments are at an address, and none are there.
            let by_address = call(libc::SYS_clone3, [0, 0, 0, 0]);
            let thread = std::thread::spawn(|| 7).join().ok();
            (made, by_address, thread)
        };
        if let Some(got) = filtered(false, tried) {
            assert_eq!(got, ([libc::EPERM; 3], libc::ENOSYS, Some(7)));
        }
    }

    #[test]
    fn sockets_are_local_whichever_call_makes_them() {
        let mut pair = [0i32; 2];
        let to = pair.as_mut_ptr() as i64;
        let tried = || {
            let of = |f: i32| {
                let f = i64::from(f);
                [
                    call(libc::SYS_socket, [f, 1, 0, 0]),
                    call(libc::SYS_socketpair, [f, 1, 0, to]),
                ]
            };
            [libc::AF_UNIX, libc::AF_INET, libc::AF_TIPC].map(of)
        };
        let no = [libc::EACCES; 2];
        if let Some(got) = filtered(false, tried) {
            assert_eq!(got, [[0, 0], no, no]);
        }
        if let Some(got) = filtered(true, tried) {
            assert_eq!(got, [[0, 0], [0, libc::EACCES], no]);
        }
    }
}
