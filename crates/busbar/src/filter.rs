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
/// Sockets that there may be: drivers speak to daemons of theirs and to the kernel.
const FAMILIES: [i32; 2] = [libc::AF_UNIX, libc::AF_NETLINK];

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

fn program() -> Vec<libc::sock_filter> {
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
    let mut sockets = vec![load(FIRST_ARGUMENT)];
    let may = |f: &i32| end_if(*f as u32, libc::SECCOMP_RET_ALLOW);
    sockets.extend(FAMILIES.iter().flat_map(may));
    sockets.push(end(no(libc::EACCES)));
    let socket = libc::SYS_socket as u32;
    all.push(step(jump | libc::BPF_JEQ, socket, 0, sockets.len() as u8));
    all.extend(sockets);
    all.push(end(libc::SECCOMP_RET_ALLOW));
    all
}

/// Takes these calls from this thread and those that it starts. New rights must have been given up
/// before.
pub fn install() -> io::Result<()> {
    let mut all = program();
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
