//! libibverbs as far as it is used: loaded when first asked for, since most machines have none.
//!
//! Structures have the layout of its stable interface (`libibverbs.so.1`, version 1.1 of its
//! symbols). Four calls are no symbols of it but go through a table in the device's context.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// A device that can be opened.
#[repr(C)]
pub(super) struct RawDevice(c_void);
/// A protection domain.
#[repr(C)]
pub(super) struct Domain(c_void);

/// An open device, as far as it is looked into.
#[repr(C)]
pub(super) struct Context {
    device: *mut RawDevice,
    ops: Ops,
    cmd_fd: c_int,
    pub(super) async_fd: c_int,
    vectors: c_int,
    lock: [u64; 5],
    extended: usize,
}

/// The table of what a device's driver does itself. Gaps are what has other ways by now.
#[repr(C)]
struct Ops {
    before: [*const c_void; 7],
    alloc_mw: Option<unsafe extern "C" fn(*mut Domain, c_int) -> *mut Window>,
    bind_mw: *const c_void,
    dealloc_mw: Option<unsafe extern "C" fn(*mut Window) -> c_int>,
    create_cq: *const c_void,
    poll_cq: unsafe extern "C" fn(*mut Queue, c_int, *mut Completion) -> c_int,
    req_notify_cq: unsafe extern "C" fn(*mut Queue, c_int) -> c_int,
    between: [*const c_void; 12],
    post_send: unsafe extern "C" fn(*mut Raw, *mut Send, *mut *mut Send) -> c_int,
    post_recv: unsafe extern "C" fn(*mut Raw, *mut Receive, *mut *mut Receive) -> c_int,
    after: [*const c_void; 5],
}

/// What lies just before the context of a device where that says so ([`EXTENDED`]): more of the
/// table, which grows upwards, and how many bytes all of it has.
#[repr(C)]
struct Before {
    query_device:
        Option<unsafe extern "C" fn(*mut Context, *const c_void, *mut DeviceFacts, usize) -> c_int>,
    between: [*const c_void; 11],
    size: usize,
}

/// In a context that has something before it.
const EXTENDED: usize = usize::MAX;

/// What a device says of itself, as far as it is looked into; a newer library knows more.
#[repr(C)]
struct DeviceFacts {
    before: [u64; 30],
    /// Of paging: in general; of reliable queue pairs.
    paging: u64,
    paging_reliable: u32,
    rest: [u32; 37],
}

/// A completion queue.
#[repr(C)]
pub(super) struct Queue {
    context: *mut Context,
}

/// A queue pair.
#[repr(C)]
pub(super) struct Raw {
    context: *mut Context,
    user: *mut c_void,
    pd: *mut Domain,
    send_cq: *mut Queue,
    recv_cq: *mut Queue,
    srq: *mut c_void,
    handle: u32,
    pub(super) number: u32,
}

/// Where events come.
#[repr(C)]
pub(super) struct Channel {
    context: *mut Context,
    pub(super) fd: c_int,
    refs: c_int,
}

/// A registration.
#[repr(C)]
pub(super) struct Region {
    context: *mut Context,
    pd: *mut Domain,
    addr: *mut c_void,
    length: usize,
    handle: u32,
    pub(super) lkey: u32,
    pub(super) rkey: u32,
}

/// A memory window.
#[repr(C)]
pub(super) struct Window {
    context: *mut Context,
    pd: *mut Domain,
    pub(super) rkey: u32,
    handle: u32,
    kind: c_int,
}

/// What a request opens a window on.
#[repr(C)]
pub(super) struct Opening {
    pub(super) window: *mut Window,
    pub(super) rkey: u32,
    pub(super) region: *mut Region,
    pub(super) addr: u64,
    pub(super) len: u64,
    pub(super) access: c_uint,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub(super) addr: u64,
    pub(super) length: u32,
    pub(super) lkey: u32,
}

#[repr(C)]
pub(super) struct Send {
    pub(super) wr_id: u64,
    pub(super) next: *mut Send,
    pub(super) pieces: *mut Piece,
    pub(super) n_pieces: c_int,
    pub(super) opcode: c_int,
    pub(super) flags: c_uint,
    /// In the network's order.
    pub(super) immediate: u32,
    pub(super) to: u64,
    pub(super) rkey: u32,
    others: [u32; 7],
    pub(super) opening: Opening,
}

#[repr(C)]
pub(super) struct Receive {
    pub(super) wr_id: u64,
    pub(super) next: *mut Receive,
    pub(super) pieces: *mut Piece,
    pub(super) n_pieces: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Completion {
    pub(super) wr_id: u64,
    pub(super) status: c_int,
    pub(super) opcode: c_int,
    pub(super) vendor_err: u32,
    pub(super) byte_len: u32,
    pub(super) immediate: u32,
    qp_num: u32,
    src_qp: u32,
    pub(super) flags: c_uint,
    rest: [u32; 2],
}

#[repr(C)]
#[derive(Default)]
pub(super) struct Capacity {
    pub(super) sends: u32,
    pub(super) receives: u32,
    pub(super) send_pieces: u32,
    pub(super) receive_pieces: u32,
    pub(super) inline: u32,
}

#[repr(C)]
pub(super) struct Init {
    pub(super) user: *mut c_void,
    pub(super) send_cq: *mut Queue,
    pub(super) recv_cq: *mut Queue,
    pub(super) srq: *mut c_void,
    pub(super) capacity: Capacity,
    pub(super) kind: c_int,
    pub(super) all_signalled: c_int,
}

#[repr(C)]
#[derive(Default)]
pub(super) struct Way {
    pub(super) gid: [u8; 16],
    pub(super) flow_label: u32,
    pub(super) gid_index: u8,
    pub(super) hop_limit: u8,
    pub(super) traffic_class: u8,
    pub(super) lid: u16,
    pub(super) level: u8,
    pub(super) src_path_bits: u8,
    pub(super) static_rate: u8,
    pub(super) is_global: u8,
    pub(super) port: u8,
}

/// What [`modify_qp`](Api) changes.
#[repr(C, align(8))]
#[derive(Default)]
pub(super) struct Attributes {
    pub(super) state: c_int,
    pub(super) current: c_int,
    pub(super) mtu: c_int,
    pub(super) migration: c_int,
    pub(super) qkey: u32,
    pub(super) their_packet: u32,
    pub(super) our_packet: u32,
    pub(super) peer: u32,
    pub(super) access: c_uint,
    pub(super) capacity: Capacity,
    pub(super) way: Way,
    pub(super) other_way: Way,
    pub(super) pkey_index: u16,
    pub(super) other_pkey: u16,
    pub(super) drain: [u8; 2],
    pub(super) max_reads: u8,
    pub(super) max_their_reads: u8,
    pub(super) not_ready_timer: u8,
    pub(super) port: u8,
    pub(super) timeout: u8,
    pub(super) retries: u8,
    pub(super) not_ready_retries: u8,
    pub(super) rest: [u8; 8],
}

#[repr(C)]
#[derive(Default)]
pub(super) struct Port {
    pub(super) state: c_int,
    max_mtu: c_int,
    pub(super) mtu: c_int,
    pub(super) gids: c_int,
    some: [u32; 4],
    pkeys: u16,
    pub(super) lid: u16,
    more: [u8; 10],
    pub(super) link: u8,
    flags: u8,
    // A newer library may know more.
    rest: [u32; 8],
}

#[repr(C)]
#[derive(Default)]
pub(super) struct Event {
    element: u64,
    pub(super) kind: c_int,
}

const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(Context, async_fd) == 268 && offset_of!(Context, extended) == 320);
    assert!(size_of::<Before>() == 104 && size_of::<Context>() == 328);
    assert!(size_of::<DeviceFacts>() == 400 && offset_of!(DeviceFacts, paging_reliable) == 248);
    assert!(offset_of!(Ops, poll_cq) == 88 && offset_of!(Ops, post_send) == 200);
    assert!(size_of::<Ops>() == 256);
    assert!(offset_of!(Raw, number) == 52 && offset_of!(Channel, fd) == 8);
    assert!(offset_of!(Region, lkey) == 36 && offset_of!(Region, rkey) == 40);
    assert!(offset_of!(Ops, alloc_mw) == 56 && offset_of!(Window, rkey) == 16);
    assert!(size_of::<Opening>() == 48 && offset_of!(Opening, addr) == 24);
    assert!(size_of::<Send>() == 128 && offset_of!(Send, to) == 40);
    assert!(offset_of!(Send, opening) == 80);
    assert!(size_of::<Receive>() == 32 && size_of::<Completion>() == 48);
    assert!(offset_of!(Completion, immediate) == 24 && offset_of!(Completion, flags) == 36);
    assert!(size_of::<Init>() == 64 && offset_of!(Init, capacity) == 32);
    assert!(size_of::<Way>() == 32 && offset_of!(Way, gid_index) == 20);
    assert!(offset_of!(Way, lid) == 24 && offset_of!(Way, port) == 30);
    assert!(size_of::<Attributes>() == 144 && offset_of!(Attributes, their_packet) == 20);
    assert!(offset_of!(Attributes, access) == 32 && offset_of!(Attributes, way) == 56);
    assert!(offset_of!(Attributes, max_reads) == 126 && offset_of!(Attributes, port) == 129);
    assert!(offset_of!(Port, lid) == 34 && offset_of!(Port, link) == 46);
};

/// A write with immediate; what comes of one at the receiver.
pub(super) const WRITE_IMMEDIATE: c_int = 1;
pub(super) const CAME_IMMEDIATE: c_int = 129;
pub(super) const READ: c_int = 4;
/// Closes a window, and opens one.
pub(super) const INVALIDATE: c_int = 7;
pub(super) const BIND: c_int = 8;
pub(super) const SIGNALLED: c_uint = 2;
pub(super) const INLINE: c_uint = 8;
pub(super) const RELIABLE: c_int = 2;
pub(super) const PORT_ACTIVE: c_int = 4;
pub(super) const ETHERNET: u8 = 2;
pub(super) const LOCAL_WRITE: c_int = 1;
pub(super) const REMOTE_WRITE: c_int = 2;
pub(super) const REMOTE_READ: c_int = 4;
pub(super) const WINDOWS: c_int = 16;
pub(super) const ON_DEMAND: c_int = 64;
/// What a device says of paging: that it does, and that reads of such memory do.
pub(super) const PAGING: u64 = 1;
pub(super) const PAGED_READS: u64 = 8;
/// States of a queue pair.
pub(super) const INIT: c_int = 1;
pub(super) const READY_TO_RECEIVE: c_int = 2;
pub(super) const READY_TO_SEND: c_int = 3;
pub(super) const ERROR: c_int = 6;
/// What of [`Attributes`] counts.
pub(super) const FOR_ERROR: c_int = 1;
pub(super) const FOR_INIT: c_int = 1 | 8 | 16 | 32;
pub(super) const FOR_RECEIVE: c_int = 1 | 1 << 7 | 1 << 8 | 1 << 20 | 1 << 12 | 1 << 17 | 1 << 15;
pub(super) const FOR_SEND: c_int = 1 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 16 | 1 << 13;

macro_rules! api {
    ($($field:ident = $symbol:literal ($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        /// Its functions.
        pub(super) struct Api {
            $(pub(super) $field: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
        }

        impl Api {
            fn find(of: &dyn Fn(&CStr) -> *mut c_void) -> Result<Self, String> {
                $(let $field = {
                    let found = of($symbol);
                    if found.is_null() {
                        return Err(format!("libibverbs.so.1 has no {:?}", $symbol));
                    }
                    // SAFETY: the symbol has this type in every version of the library.
                    unsafe {
                        std::mem::transmute::<
                            *mut c_void,
                            unsafe extern "C" fn($($arg),*) $(-> $ret)?,
                        >(found)
                    }
                };)*
                Ok(Self { $($field),* })
            }
        }
    };
}

api! {
    fork_init = c"ibv_fork_init" () -> c_int;
    get_device_list = c"ibv_get_device_list" (*mut c_int) -> *mut *mut RawDevice;
    free_device_list = c"ibv_free_device_list" (*mut *mut RawDevice);
    get_device_name = c"ibv_get_device_name" (*mut RawDevice) -> *const c_char;
    open_device = c"ibv_open_device" (*mut RawDevice) -> *mut Context;
    close_device = c"ibv_close_device" (*mut Context) -> c_int;
    query_port = c"ibv_query_port" (*mut Context, u8, *mut Port) -> c_int;
    query_gid = c"ibv_query_gid" (*mut Context, u8, c_int, *mut [u8; 16]) -> c_int;
    alloc_pd = c"ibv_alloc_pd" (*mut Context) -> *mut Domain;
    dealloc_pd = c"ibv_dealloc_pd" (*mut Domain) -> c_int;
    reg_mr = c"ibv_reg_mr" (*mut Domain, *mut c_void, usize, c_int) -> *mut Region;
    dereg_mr = c"ibv_dereg_mr" (*mut Region) -> c_int;
    create_channel = c"ibv_create_comp_channel" (*mut Context) -> *mut Channel;
    destroy_channel = c"ibv_destroy_comp_channel" (*mut Channel) -> c_int;
    create_cq = c"ibv_create_cq"
        (*mut Context, c_int, *mut c_void, *mut Channel, c_int) -> *mut Queue;
    destroy_cq = c"ibv_destroy_cq" (*mut Queue) -> c_int;
    get_cq_event = c"ibv_get_cq_event" (*mut Channel, *mut *mut Queue, *mut *mut c_void) -> c_int;
    ack_cq_events = c"ibv_ack_cq_events" (*mut Queue, c_uint);
    create_qp = c"ibv_create_qp" (*mut Domain, *mut Init) -> *mut Raw;
    modify_qp = c"ibv_modify_qp" (*mut Raw, *mut Attributes, c_int) -> c_int;
    destroy_qp = c"ibv_destroy_qp" (*mut Raw) -> c_int;
    get_async_event = c"ibv_get_async_event" (*mut Context, *mut Event) -> c_int;
    ack_async_event = c"ibv_ack_async_event" (*mut Event);
}

/// The library, or why it cannot be used.
pub(super) fn api() -> Result<&'static Api, String> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    let load = || {
        // SAFETY: the library's constructors do nothing but register drivers.
        let library = unsafe {
            libc::dlopen(
                c"libibverbs.so.1".as_ptr(),
                libc::RTLD_NOW | libc::RTLD_LOCAL,
            )
        };
        if library.is_null() {
            return Err(
                "libibverbs.so.1 cannot be loaded; Debian and Ubuntu have it in \
                        libibverbs1 and ibverbs-providers"
                    .to_string(),
            );
        }
        // SAFETY: a live handle, which is never closed.
        let api = Api::find(&|name| unsafe { libc::dlsym(library, name.as_ptr()) })?;
        // Where a fork still copies registered pages from under the device, this prevents that.
        // SAFETY: nothing has been registered by us; if the program has done so, it only fails.
        unsafe { (api.fork_init)() };
        Ok(api)
    };
    API.get_or_init(load).as_ref().map_err(Clone::clone)
}

/// As `ibv_poll_cq`.
///
/// # Safety
/// A live queue, and room for so many completions.
pub(super) unsafe fn poll_cq(queue: *mut Queue, n: usize, out: *mut Completion) -> c_int {
    // SAFETY: passed on to the caller; a queue's context is open.
    unsafe { ((*(*queue).context).ops.poll_cq)(queue, n as c_int, out) }
}

/// As `ibv_req_notify_cq`, for all completions.
///
/// # Safety
/// A live queue.
pub(super) unsafe fn req_notify_cq(queue: *mut Queue) -> c_int {
    // SAFETY: as above.
    unsafe { ((*(*queue).context).ops.req_notify_cq)(queue, 0) }
}

/// As `ibv_post_send`.
///
/// # Safety
/// A live queue pair, and what the request names.
pub(super) unsafe fn post_send(pair: *mut Raw, one: &mut Send) -> c_int {
    let mut bad = std::ptr::null_mut();
    // SAFETY: as above.
    unsafe { ((*(*pair).context).ops.post_send)(pair, one, &raw mut bad) }
}

/// As `ibv_post_recv`.
///
/// # Safety
/// A live queue pair; requests that name no memory.
pub(super) unsafe fn post_recv(pair: *mut Raw, first: &mut Receive) -> c_int {
    let mut bad = std::ptr::null_mut();
    // SAFETY: as above.
    unsafe { ((*(*pair).context).ops.post_recv)(pair, first, &raw mut bad) }
}

/// Makes a window of the kind that requests open and close; null where the device has none.
///
/// # Safety
/// A live domain of an open device.
pub(super) unsafe fn alloc_mw(context: *mut Context, domain: *mut Domain) -> *mut Window {
    const SECOND: c_int = 2;
    // SAFETY: passed on to the caller.
    unsafe {
        (*context)
            .ops
            .alloc_mw
            .map_or(std::ptr::null_mut(), |f| f(domain, SECOND))
    }
}

/// What a device says of on-demand paging, in general and of reliable queue pairs: bits, none where
/// it says nothing.
///
/// # Safety
/// A live context.
pub(super) unsafe fn paging(context: *mut Context) -> [u64; 2] {
    // SAFETY: passed on to the caller; what lies before the context is looked at if it says that
    // there is something, and long enough.
    unsafe {
        if (*context).extended != EXTENDED {
            return [0; 2];
        }
        let before = context.cast::<Before>().sub(1);
        let there = (*before).size >= size_of::<Before>() + size_of::<Context>();
        let Some(ask) = (*before).query_device.filter(|_| there) else {
            return [0; 2];
        };
        let mut facts: DeviceFacts = std::mem::zeroed();
        match ask(
            context,
            std::ptr::null(),
            &raw mut facts,
            size_of::<DeviceFacts>(),
        ) {
            0 => [facts.paging, facts.paging_reliable.into()],
            _ => [0; 2],
        }
    }
}

/// Gives a window back.
///
/// # Safety
/// A live window, of a queue pair that takes no requests any more.
pub(super) unsafe fn dealloc_mw(window: *mut Window) {
    // SAFETY: as above.
    if let Some(f) = unsafe { (*(*window).context).ops.dealloc_mw } {
        // SAFETY: likewise.
        unsafe { f(window) };
    }
}

impl Send {
    /// A request of nothing.
    pub(super) fn new(wr_id: u64) -> Self {
        Self {
            wr_id,
            next: std::ptr::null_mut(),
            pieces: std::ptr::null_mut(),
            n_pieces: 0,
            opcode: WRITE_IMMEDIATE,
            flags: 0,
            immediate: 0,
            to: 0,
            rkey: 0,
            others: [0; 7],
            opening: Opening {
                window: std::ptr::null_mut(),
                rkey: 0,
                region: std::ptr::null_mut(),
                addr: 0,
                len: 0,
                access: 0,
            },
        }
    }
}
