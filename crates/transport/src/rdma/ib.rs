//! RDMA devices of this machine, through libibverbs.

pub use super::choice::Choice;
use super::choice::size;
use super::ffi::{self, Api, api};
use super::verbs::{Access, Address, Device, Keys, Loan, Pair, Read, Region, Room, Write};
use crate::Memory;
use crate::lock::lock;
use std::ffi::CStr;
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard};

/// Reads that may be under way each way: what the devices of the last fifteen years have room for.
const READS: u8 = 16;

const DEVICES: &str = "/sys/class/infiniband";

/// A port that can be used.
pub struct Port {
    name: String,
    port: u8,
    gid: [u8; 16],
    gid_index: u8,
    lid: u16,
    mtu: u8,
    ethernet: bool,
    choice: Choice,
}

impl Port {
    /// Its device, its number there, and the index of its address.
    pub fn place(&self) -> (&str, u8, u8) {
        (&self.name, self.port, self.gid_index)
    }
}

/// Whether libibverbs can be used, else why not.
pub fn library() -> Result<(), String> {
    api().map(drop)
}

/// Whether there is a port that is up, as far as that can be seen without the library; else why
/// there is none.
pub fn seen() -> Result<(), String> {
    let inside = |p: &Path| std::fs::read_dir(p).into_iter().flatten().flatten();
    let devices: Vec<_> = inside(Path::new(DEVICES)).collect();
    if devices.is_empty() {
        return Err("this machine has no RDMA device".into());
    }
    let mut ports = devices.iter().flat_map(|d| inside(&d.path().join("ports")));
    let up = |state: String| state.contains("ACTIVE");
    match ports.any(|p| std::fs::read_to_string(p.path().join("state")).is_ok_and(up)) {
        true => Ok(()),
        false => Err("no port of this machine's RDMA devices is up".into()),
    }
}

/// The port to use for a connection whose end here is `near`, or why there is none.
pub fn find(choice: &Choice, near: Option<IpAddr>) -> Result<Port, String> {
    let any = std::fs::read_dir(DEVICES).is_ok_and(|mut d| d.next().is_some());
    if !any {
        return Err("this machine has no RDMA device".into());
    }
    let api = api()?;
    let mut n = 0;
    // SAFETY: the list is freed below; what is opened of it is closed by `Open`.
    let list = unsafe { (api.get_device_list)(&raw mut n) };
    if list.is_null() {
        let e = io::Error::last_os_error();
        return Err(format!("RDMA devices cannot be listed: {e}"));
    }
    let (mut best, mut why) = (None, None);
    for i in 0..n.max(0) as usize {
        // SAFETY: there are `n` in the list.
        let (raw, name) = unsafe {
            let raw = *list.add(i);
            (
                raw,
                CStr::from_ptr((api.get_device_name)(raw))
                    .to_string_lossy()
                    .into_owned(),
            )
        };
        if choice.device.as_ref().is_some_and(|d| *d != name) {
            continue;
        }
        match Open::new(api, raw) {
            Ok(open) => ports(&open, &name, choice, near, &mut best, &mut why),
            Err(e) => why = Some(format!("the RDMA device {name} cannot be opened: {e}")),
        }
    }
    // SAFETY: from above, and not used any more.
    unsafe { (api.free_device_list)(list) };
    best.map(|(_, port)| port).ok_or_else(|| {
        why.unwrap_or_else(|| match &choice.device {
            Some(name) => format!("this machine has no RDMA device {name}"),
            None => "this machine has no RDMA device that libibverbs knows".into(),
        })
    })
}

/// Looks at the ports of a device for a better one than the best so far.
fn ports(
    open: &Open,
    name: &str,
    choice: &Choice,
    near: Option<IpAddr>,
    best: &mut Option<(u32, Port)>,
    why: &mut Option<String>,
) {
    let folder = Path::new(DEVICES).join(name).join("ports");
    let count = std::fs::read_dir(&folder).map_or(1, |d| d.count().clamp(1, 255)) as u8;
    for port in (1..=count).filter(|p| choice.port.is_none_or(|wanted| wanted == *p)) {
        let mut attributes = ffi::Port::default();
        // SAFETY: an open device, and room for more than any version of the structure.
        let rc = unsafe { (open.api.query_port)(open.context, port, &raw mut attributes) };
        if rc != 0 {
            continue;
        }
        if attributes.state != ffi::PORT_ACTIVE {
            *why = Some(format!("port {port} of the RDMA device {name} is down"));
            continue;
        }
        let ethernet = attributes.link == ffi::ETHERNET;
        let types = folder.join(port.to_string()).join("gid_attrs/types");
        let all = 0..attributes.gids.clamp(0, 255) as u8;
        for index in all.filter(|i| choice.gid.is_none_or(|wanted| wanted == *i)) {
            let mut gid = [0; 16];
            // SAFETY: an open device, and room for an address.
            let rc =
                unsafe { (open.api.query_gid)(open.context, port, index.into(), &raw mut gid) };
            if rc != 0 || gid[8..] == [0; 8] {
                continue;
            }
            let kind = std::fs::read_to_string(types.join(index.to_string())).unwrap_or_default();
            let worth = worth(gid, ethernet, kind.trim() == "RoCE v2", near);
            if best.as_ref().is_some_and(|(most, _)| *most >= worth) {
                continue;
            }
            let most = attributes.mtu.clamp(1, 5) as u8;
            let found = Port {
                name: name.into(),
                port,
                gid,
                gid_index: index,
                lid: attributes.lid,
                mtu: choice.mtu.and_then(size).map_or(most, |m| m.min(most)),
                ethernet,
                choice: choice.clone(),
            };
            *best = Some((worth, found));
        }
        if best.is_none() {
            *why = Some(match choice.gid {
                Some(g) => format!("port {port} of the RDMA device {name} has no address {g}"),
                None => format!("port {port} of the RDMA device {name} has no address"),
            });
        }
    }
}

/// How well an address suits a connection whose end here is `near`.
fn worth(gid: [u8; 16], ethernet: bool, second: bool, near: Option<IpAddr>) -> u32 {
    let gid = std::net::Ipv6Addr::from(gid);
    let address = gid.to_ipv4_mapped().map_or(IpAddr::V6(gid), IpAddr::V4);
    let here = near.is_some_and(|n| n.to_canonical() == address);
    let routed = address.is_ipv4() || gid.segments()[0] != 0xfe80;
    match (ethernet, second) {
        // Native InfiniBand: its first address is as good as any.
        (false, _) => 10,
        (true, true) => {
            4 + 2 * u32::from(routed) + u32::from(address.is_ipv4()) + 8 * u32::from(here)
        }
        (true, false) => 1 + u32::from(here),
    }
}

/// An open device, until it is dropped.
struct Open {
    api: &'static Api,
    context: *mut ffi::Context,
}

impl Open {
    fn new(api: &'static Api, raw: *mut ffi::RawDevice) -> io::Result<Self> {
        // SAFETY: the device is in a list that is not freed yet.
        let context = unsafe { (api.open_device)(raw) };
        match context.is_null() {
            true => Err(io::Error::last_os_error()),
            false => Ok(Self { api, context }),
        }
    }

    /// Whether the device reads and writes memory that is not locked, over the queue pairs that
    /// are used here.
    fn pages(&self) -> bool {
        // SAFETY: an open device.
        let [general, reliable] = unsafe { ffi::paging(self.context) };
        general & ffi::PAGING > 0 && reliable & ffi::PAGED_READS == ffi::PAGED_READS
    }

    fn named(api: &'static Api, name: &str) -> io::Result<Self> {
        let mut n = 0;
        // SAFETY: as in `find`.
        unsafe {
            let list = (api.get_device_list)(&raw mut n);
            if list.is_null() {
                return Err(io::Error::last_os_error());
            }
            let all = (0..n.max(0) as usize).map(|i| *list.add(i));
            let is = |d: &*mut ffi::RawDevice| {
                CStr::from_ptr((api.get_device_name)(*d)).to_bytes() == name.as_bytes()
            };
            let open = match { all }.find(is) {
                Some(raw) => Self::new(api, raw),
                None => Err(io::Error::from_raw_os_error(libc::ENODEV)),
            };
            (api.free_device_list)(list);
            open
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: open, and nothing is left of it: whatever was made of it is dropped before.
        unsafe { (self.api.close_device)(self.context) };
    }
}

impl Device for Port {
    fn name(&self) -> String {
        format!("port {} of the RDMA device {}", self.port, self.name)
    }

    fn pair(&self, room: Room) -> io::Result<Box<dyn Pair>> {
        let api = api().map_err(io::Error::other)?;
        let mut pair = IbPair {
            domain: Arc::new(Domain::new(Open::named(api, &self.name)?)?),
            channel: null_mut(),
            sends: null_mut(),
            receives: null_mut(),
            live: Mutex::new(Live {
                pair: null_mut(),
                windows: Vec::new(),
            }),
            address: Address::default(),
            gid_index: self.gid_index,
            port: self.port,
            is_global: self.ethernet || self.choice.gid.is_some(),
            choice: self.choice.clone(),
        };
        pair.make(room)?;
        let mut random = [0; 4];
        // SAFETY: four writable bytes; where it fails, packets are numbered from 0.
        unsafe { libc::getrandom(random.as_mut_ptr().cast(), 4, 0) };
        pair.address = Address {
            gid: self.gid,
            lid: self.lid,
            // SAFETY: it was made just now.
            pair: unsafe { (*lock(&pair.live).pair).number },
            packet: u32::from_ne_bytes(random) & 0xff_ffff,
            mtu: self.mtu,
        };
        Ok(Box::new(pair))
    }
}

/// A protection domain, and the device that it is of.
struct Domain {
    raw: *mut ffi::Domain,
    open: Open,
}

// SAFETY: libibverbs may be called from any thread, from several at a time for one object, too.
unsafe impl std::marker::Send for Domain {}
// SAFETY: likewise.
unsafe impl Sync for Domain {}

impl Domain {
    fn new(open: Open) -> io::Result<Self> {
        // SAFETY: an open device.
        let raw = made(unsafe { (open.api.alloc_pd)(open.context) })?;
        Ok(Self { raw, open })
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: ours; whatever is of it keeps it.
        unsafe { (self.open.api.dealloc_pd)(self.raw) };
    }
}

/// A registration, until it is dropped.
struct Registration {
    region: *mut ffi::Region,
    domain: Arc<Domain>,
}

// SAFETY: as with a domain.
unsafe impl std::marker::Send for Registration {}
// SAFETY: likewise.
unsafe impl Sync for Registration {}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: ours, of a device that is open still.
        unsafe { (self.domain.open.api.dereg_mr)(self.region) };
    }
}

/// What ends when a queue pair is stopped.
struct Live {
    /// It; null before it is made, and once it has been stopped.
    pair: *mut ffi::Raw,
    windows: Vec<*mut ffi::Window>,
}

/// See [`Pair`]. Null is what is not made yet.
struct IbPair {
    channel: *mut ffi::Channel,
    sends: *mut ffi::Queue,
    receives: *mut ffi::Queue,
    /// Held while a request is queued.
    live: Mutex<Live>,
    address: Address,
    gid_index: u8,
    port: u8,
    is_global: bool,
    choice: Choice,
    /// Last, since all else is of it.
    domain: Arc<Domain>,
}

// SAFETY: libibverbs may be called from any thread, from several at a time for one object, too.
unsafe impl std::marker::Send for IbPair {}
// SAFETY: likewise.
unsafe impl Sync for IbPair {}

/// An error number that a call gives back.
fn check(rc: i32) -> io::Result<()> {
    match rc {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        n => Err(io::Error::from_raw_os_error(n.abs())),
    }
}

/// What a call has made.
fn made<T>(it: *mut T) -> io::Result<*mut T> {
    match it.is_null() {
        true => Err(io::Error::last_os_error()),
        false => Ok(it),
    }
}

impl Live {
    /// See [`IbPair::post`].
    unsafe fn post(&self, one: &mut ffi::Send) -> io::Result<()> {
        // SAFETY: a queue pair, and passed on to the caller.
        check(unsafe { ffi::post_send(self.pair, one) })
    }
}

impl IbPair {
    fn make(&mut self, room: Room) -> io::Result<()> {
        let (api, context) = (self.api(), self.domain.open.context);
        // SAFETY: everything is made of what was made before it and checked.
        unsafe {
            self.channel = made((api.create_channel)(context))?;
            for fd in [(*self.channel).fd, (*context).async_fd] {
                let flags = libc::fcntl(fd, libc::F_GETFL);
                check(libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK).min(0))?;
            }
            let none = null_mut();
            let sends = room.sends as i32;
            let (n, events) = (room.receives as i32, self.channel);
            self.sends = made((api.create_cq)(context, sends, none, events, 0))?;
            self.receives = made((api.create_cq)(context, n, null_mut(), events, 0))?;
            let mut init = ffi::Init {
                user: null_mut(),
                send_cq: self.sends,
                recv_cq: self.receives,
                srq: null_mut(),
                capacity: ffi::Capacity {
                    sends: room.sends,
                    receives: room.receives,
                    send_pieces: 1,
                    receive_pieces: 1,
                    inline: room.inline,
                },
                kind: ffi::RELIABLE,
                all_signalled: 0,
            };
            let pair = made((api.create_qp)(self.domain.raw, &raw mut init))?;
            lock(&self.live).pair = pair;
            let mut attributes = ffi::Attributes {
                state: ffi::INIT,
                port: self.port,
                access: (ffi::REMOTE_WRITE | ffi::REMOTE_READ) as u32,
                ..ffi::Attributes::default()
            };
            check((api.modify_qp)(pair, &raw mut attributes, ffi::FOR_INIT))
        }
    }

    fn api(&self) -> &'static Api {
        self.domain.open.api
    }

    /// The queue pair, unless it has been stopped.
    fn live(&self) -> io::Result<MutexGuard<'_, Live>> {
        let live = lock(&self.live);
        match live.pair.is_null() {
            true => Err(io::ErrorKind::NotConnected.into()),
            false => Ok(live),
        }
    }

    /// Queues a request.
    ///
    /// # Safety
    /// What it names is as its kind asks.
    unsafe fn post(&self, one: &mut ffi::Send) -> io::Result<()> {
        // SAFETY: passed on to the caller.
        unsafe { self.live()?.post(one) }
    }

    /// The number of events that have come of a queue, to be acknowledged.
    fn acknowledge(&self, queue: *mut ffi::Queue, n: u32) {
        if n > 0 {
            // SAFETY: our queue.
            unsafe { (self.api().ack_cq_events)(queue, n) };
        }
    }
}

impl Pair for IbPair {
    fn address(&self) -> Address {
        self.address
    }

    unsafe fn register(&self, memory: Memory, access: Access) -> io::Result<Region> {
        let rights = match access {
            Access::Sent => 0,
            Access::Written => ffi::LOCAL_WRITE | ffi::REMOTE_WRITE,
            Access::Lent => ffi::LOCAL_WRITE | ffi::WINDOWS,
            Access::Paged if self.domain.open.pages() => {
                ffi::LOCAL_WRITE | ffi::WINDOWS | ffi::ON_DEMAND
            }
            Access::Paged => return Err(io::ErrorKind::Unsupported.into()),
            Access::Open => ffi::LOCAL_WRITE | ffi::REMOTE_WRITE | ffi::REMOTE_READ,
        };
        // SAFETY: the caller vouches for the memory; it is of our domain.
        unsafe {
            let start = memory.start.cast();
            let region = (self.api().reg_mr)(self.domain.raw, start, memory.len, rights);
            let region = made(region)?;
            let keys = Keys {
                local: (*region).lkey,
                remote: (*region).rkey,
                raw: region as u64,
            };
            let domain = self.domain.clone();
            let _end = Box::new(Registration { region, domain });
            Ok(Region { keys, _end })
        }
    }

    fn window(&self) -> io::Result<usize> {
        let mut live = self.live()?;
        // SAFETY: our domain, of an open device.
        let window = unsafe { ffi::alloc_mw(self.domain.open.context, self.domain.raw) };
        live.windows.push(made(window)?);
        Ok(live.windows.len() - 1)
    }

    unsafe fn open(&self, window: usize, region: &Region, loan: Loan) -> io::Result<u32> {
        let live = self.live()?;
        let window = live.windows[window];
        // SAFETY: a window of ours.
        let before = unsafe { (*window).rkey };
        // Another key each time, of which the device has chosen all but the last eight bits.
        let rkey = before & !0xff | before.wrapping_add(1) & 0xff;
        let mut one = ffi::Send::new(0);
        one.opcode = ffi::BIND;
        one.opening = ffi::Opening {
            window,
            rkey,
            region: region.keys.raw as *mut ffi::Region,
            addr: loan.at as u64,
            len: loan.len as u64,
            access: ffi::REMOTE_READ as u32,
        };
        // SAFETY: the caller vouches for the region; the window is ours, and closed.
        unsafe {
            live.post(&mut one)?;
            (*window).rkey = rkey;
        }
        Ok(rkey)
    }

    fn close(&self, window: usize, id: u64) -> io::Result<()> {
        let live = self.live()?;
        let window = live.windows[window];
        let mut one = ffi::Send::new(id);
        one.opcode = ffi::INVALIDATE;
        one.flags = ffi::SIGNALLED;
        // SAFETY: a window of ours.
        one.immediate = unsafe { (*window).rkey };
        // SAFETY: as above.
        unsafe { live.post(&mut one) }
    }

    unsafe fn read(&self, read: &Read) -> io::Result<()> {
        let mut piece = ffi::Piece {
            addr: read.to as u64,
            length: read.len as u32,
            lkey: read.local,
        };
        let mut one = ffi::Send::new(read.id);
        one.opcode = ffi::READ;
        one.flags = ffi::SIGNALLED;
        (one.pieces, one.n_pieces) = (&raw mut piece, 1);
        (one.to, one.rkey) = (read.from, read.remote);
        // SAFETY: the caller vouches for the memory.
        unsafe { self.post(&mut one) }
    }

    fn stop(&self) {
        let mut live = lock(&self.live);
        let pair = std::mem::replace(&mut live.pair, null_mut());
        if pair.is_null() {
            return;
        }
        let mut failed = ffi::Attributes {
            state: ffi::ERROR,
            ..ffi::Attributes::default()
        };
        // SAFETY: ours, and nobody else has it any more. The kernel returns once the device is done
        // with it; the one of software waits for a minute if a window of it is still open.
        unsafe {
            (self.api().modify_qp)(pair, &raw mut failed, ffi::FOR_ERROR);
            live.windows.drain(..).for_each(|w| ffi::dealloc_mw(w));
            (self.api().destroy_qp)(pair);
        }
    }

    fn connect(&self, peer: &Address) -> io::Result<()> {
        let mut receive = ffi::Attributes {
            state: ffi::READY_TO_RECEIVE,
            mtu: self.address.mtu.min(peer.mtu).into(),
            peer: peer.pair & 0xff_ffff,
            their_packet: peer.packet & 0xff_ffff,
            max_their_reads: READS,
            not_ready_timer: 12,
            way: ffi::Way {
                gid: peer.gid,
                gid_index: self.gid_index,
                hop_limit: 64,
                traffic_class: self.choice.class,
                lid: peer.lid,
                level: self.choice.level,
                is_global: self.is_global.into(),
                port: self.port,
                ..ffi::Way::default()
            },
            ..ffi::Attributes::default()
        };
        let mut send = ffi::Attributes {
            state: ffi::READY_TO_SEND,
            our_packet: self.address.packet,
            timeout: self.choice.timeout,
            retries: self.choice.retries,
            // For ever: nothing is sent that the peer is not ready for.
            not_ready_retries: 7,
            max_reads: READS,
            ..ffi::Attributes::default()
        };
        let (modify, live) = (self.api().modify_qp, self.live()?);
        // SAFETY: our queue pair, and live structures.
        unsafe {
            check(modify(live.pair, &raw mut receive, ffi::FOR_RECEIVE))?;
            check(modify(live.pair, &raw mut send, ffi::FOR_SEND))
        }
    }

    unsafe fn write(&self, write: &Write) -> io::Result<()> {
        let mut piece = ffi::Piece {
            addr: write.from as u64,
            length: write.len as u32,
            lkey: write.local,
        };
        let mut one = ffi::Send::new(write.id);
        if write.len > 0 {
            (one.pieces, one.n_pieces) = (&raw mut piece, 1);
            one.flags |= if write.inline { ffi::INLINE } else { 0 };
        }
        one.flags |= if write.signalled { ffi::SIGNALLED } else { 0 };
        one.immediate = write.immediate.to_be();
        (one.to, one.rkey) = (write.to, write.remote);
        // SAFETY: the caller vouches for the bytes.
        unsafe { self.post(&mut one) }
    }

    fn receive(&self, n: u32) -> io::Result<()> {
        let live = self.live()?;
        for _ in 0..n {
            let mut one = ffi::Receive {
                wr_id: 0,
                next: null_mut(),
                pieces: null_mut(),
                n_pieces: 0,
            };
            // SAFETY: our queue pair, and no memory.
            check(unsafe { ffi::post_recv(live.pair, &mut one) })?;
        }
        Ok(())
    }

    fn sent(&self, ids: &mut [u64]) -> io::Result<usize> {
        let mut some = [ffi::Completion::default(); 16];
        let most = some.len().min(ids.len());
        // SAFETY: our queue, and room for so many.
        let n = unsafe { ffi::poll_cq(self.sends, most, some.as_mut_ptr()) };
        let n = usize::try_from(n).map_err(|_| io::Error::other("its completions are lost"))?;
        for (id, c) in ids.iter_mut().zip(&some[..n]) {
            if c.status != 0 {
                return Err(super::failed(c.status as u32));
            }
            *id = c.wr_id;
        }
        Ok(n)
    }

    fn received(&self, immediates: &mut [u32]) -> io::Result<usize> {
        let mut some = [ffi::Completion::default(); 32];
        let most = some.len().min(immediates.len());
        // SAFETY: our queue, and room for so many.
        let n = unsafe { ffi::poll_cq(self.receives, most, some.as_mut_ptr()) };
        let n = usize::try_from(n).map_err(|_| io::Error::other("its completions are lost"))?;
        for (immediate, c) in immediates.iter_mut().zip(&some[..n]) {
            if c.status != 0 {
                return Err(super::failed(c.status as u32));
            }
            if c.opcode != ffi::CAME_IMMEDIATE || c.flags & 2 == 0 {
                return Err(io::Error::other(
                    "the peer sends something else than it should",
                ));
            }
            *immediate = u32::from_be(c.immediate);
        }
        Ok(n)
    }

    fn arm(&self) -> io::Result<()> {
        // SAFETY: our queue.
        check(unsafe { ffi::req_notify_cq(self.receives) })
    }

    fn arm_sent(&self) -> io::Result<()> {
        // SAFETY: our queue.
        check(unsafe { ffi::req_notify_cq(self.sends) })
    }

    fn events(&self) -> BorrowedFd<'_> {
        // SAFETY: open for as long as the channel, which goes with us.
        unsafe { BorrowedFd::borrow_raw((*self.channel).fd) }
    }

    fn clear_events(&self) -> io::Result<()> {
        let (mut queue, mut user) = (null_mut(), null_mut());
        let (mut came, mut done) = (0, 0);
        let next = self.api().get_cq_event;
        // SAFETY: our channel, whose events are all of our two queues; it does not wait.
        while unsafe { next(self.channel, &raw mut queue, &raw mut user) } == 0 {
            match queue == self.sends {
                true => done += 1,
                false => came += 1,
            }
        }
        let e = io::Error::last_os_error();
        self.acknowledge(self.receives, came);
        self.acknowledge(self.sends, done);
        match e.kind() {
            io::ErrorKind::WouldBlock => Ok(()),
            _ => Err(e),
        }
    }

    fn troubles(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: open for as long as the device is, which goes with us.
        Some(unsafe { BorrowedFd::borrow_raw((*self.domain.open.context).async_fd) })
    }

    fn take_troubles(&self) -> io::Result<()> {
        let api = self.api();
        loop {
            let mut event = ffi::Event::default();
            // SAFETY: our device; it does not wait.
            if unsafe { (api.get_async_event)(self.domain.open.context, &raw mut event) } != 0 {
                let e = io::Error::last_os_error();
                return match e.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(()),
                    _ => Err(e),
                };
            }
            // SAFETY: the event just came.
            unsafe { (api.ack_async_event)(&raw mut event) };
            let why = match event.kind {
                0 => "its completion queue has failed",
                1..=3 => "its queue pair has failed",
                8 => "the device has failed, or was taken away",
                10 => "the port has gone down",
                _ => continue,
            };
            return Err(io::Error::other(why));
        }
    }
}

impl Drop for IbPair {
    fn drop(&mut self) {
        self.stop();
        let api = self.api();
        // SAFETY: in the order opposite to that in which they were made, what was made. All events
        // are acknowledged.
        unsafe {
            for queue in [self.sends, self.receives] {
                if !queue.is_null() {
                    (api.destroy_cq)(queue);
                }
            }
            if !self.channel.is_null() {
                (api.destroy_channel)(self.channel);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_the_connection_itself_is_the_best() {
        let v4 = |s: &str| {
            s.parse::<std::net::Ipv4Addr>()
                .unwrap()
                .to_ipv6_mapped()
                .octets()
        };
        let near = Some("10.9.0.1".parse().unwrap());
        let local = "fe80::1".parse::<std::net::Ipv6Addr>().unwrap().octets();
        let here = worth(v4("10.9.0.1"), true, true, near);
        assert!(here > worth(v4("10.8.0.1"), true, true, near));
        assert!(worth(v4("10.8.0.1"), true, true, near) > worth(local, true, true, near));
        assert!(worth(local, true, true, near) > worth(v4("10.9.0.1"), true, false, near));
    }
}
