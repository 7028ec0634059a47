//! A worker's life: wait for a session, execute its records, give everything back, exit.

use crate::across::{Counters, Links};
use crate::ahead::Ahead;
use crate::at_once::AtOnce;
use crate::callback::Callbacks;
use crate::checkpoint::Checkpoints;
use crate::content::Content;
pub use crate::ears::Withdraw;
use crate::ears::{Common, Ears};
use crate::end::{Patience, Progress};
pub use crate::intake::Ends;
use crate::intake::{Body, Ended, Frame, Intake, Next, Queue, SLABS_IN, SLABS_OUT};
use crate::inventory::{Inventory, Tally};
use crate::keeper::{Newest, Wait};
use crate::memory::Limit;
use crate::neighbours::Neighbours;
use crate::outbox::Outbox;
use crate::peers::Peers;
use crate::prelude::*;
use crate::process::Process;
use crate::shared::Offers;
use crate::staging::{Arena, Hold};
use crate::turn::Turn;
use crate::welcome::{Way, answer, first_welcome, greet};
use crate::{Api, Beside, Offered, Setup, signals, sockets};
use busbar_abi::cuda::CUDA_ERROR_NOT_INITIALIZED;
use busbar_channel::switches::{self, Switch};
use busbar_channel::{Channel, Keeper, is_crowded, nap};
use busbar_control::attach::{Answer, Attach, Order, Question, Report};
use busbar_control::checkpoint::Reached;
use busbar_control::hello::{NEWS, RDMA, Refusal, SHARED_MEMORY, Welcome};
use busbar_control::holding::Holding;
use busbar_transport::Connection;
use busbar_transport::baton::Board;
use busbar_transport::handover;
use busbar_transport::rdma::{Settings, Wish};
use busbar_transport::shared::Door;
use busbar_transport::stream::Stream;
use busbar_wire::record::{Header, Records};
use busbar_wire::{WireError, record};
use std::os::fd::OwnedFd;

/// What the server decides for all its workers.
#[derive(Clone, Default)]
pub struct Options {
    /// Whether this process can do nothing to others.
    pub confined: bool,
    /// The CUDA driver to load instead of the system's.
    pub cuda_library: Option<String>,
    /// The OpenCL library to load instead of the system's.
    pub opencl_library: Option<String>,
    /// The NCCL to load instead of the one that is found.
    pub nccl_library: Option<String>,
    /// The NVML to load instead of the system's.
    pub nvml_library: Option<String>,
    /// The CUPTI to load instead of the one that is found.
    pub cupti_library: Option<String>,
    /// Threads that submit launches of several streams side by side; `None`: as suits the machine.
    pub submitters: Option<usize>,
    /// Whether the server makes the sockets that libraries ask for.
    pub lent_sockets: bool,
    /// Whether connections move to a queue pair, and over what.
    pub rdma: Settings,
    /// What has the device stop whatever this process has under way there, where the end of the
    /// process would be the end of others' work.
    pub withdraw: Option<Withdraw>,
}

/// What the server gives a worker beside its session.
#[derive(Debug, Default)]
pub struct Given {
    /// Leads to the process that keeps content between sessions.
    pub store: Option<OwnedFd>,
    /// Where a client of this host hands memory over: [`busbar_transport::shared::Door`].
    pub door: Option<OwnedFd>,
}

/// Runs a worker for the server at the other end of `control`. Returns when its session is over.
/// `apis` maps names to the code that opens them; `warm` prepares what can be prepared before
/// anybody asks.
pub fn run(
    control: OwnedFd,
    options: &Options,
    given: Given,
    apis: &[Offered],
    warm: impl FnOnce(),
) -> Result<(), String> {
    abort_on_panic();
    let outbox = Outbox::default();
    signals::obey(outbox.clone()).map_err(|e| format!("cannot start a thread: {e}"))?;
    warm();
    let control = Arc::new(control);
    if options.lent_sockets {
        sockets::lend_from(control.clone());
    }
    let say = |r: &Report| {
        let _ = handover::send(&control, &r.to_json(), None);
    };
    say(&Report::Ready);
    let (mut board, mut bell) = (None, None);
    let (attach, mut fds) = loop {
        let next = handover::recv_all(&control).map_err(|e| format!("control socket: {e}"))?;
        let Some((said, fds)) = next else {
            return Ok(());
        };
        match busbar_control::read("what the server says", &said)? {
            Order::Attach(attach) => break (attach, fds),
            Order::Board => board = fds.into_iter().next(),
            Order::Bell => bell = fds.into_iter().next(),
            // Somebody may ask for what all sessions hold before this one has begun.
            Order::News { .. } | Order::Shared => {}
            Order::Lost(_) | Order::Talk(_) => {}
            Order::Ask { number, question } => {
                let none = Reached::without_driver(CUDA_ERROR_NOT_INITIALIZED, 0);
                let answer = match question {
                    Question::Holding => Answer::Holding(Holding::default()),
                    Question::Step(_) | Question::Swap(_) => Answer::Reached(none),
                };
                say(&Report::Answers { number, answer });
            }
            _ => return Err("the server says nothing of a session".into()),
        }
    };
    let turn = Turn::default();
    if let (Some(board), Some(bell)) = (board, bell) {
        let board = Board::adopt(board).map_err(|e| format!("the board of turns: {e}"))?;
        turn.obey(board, bell, attach.devices.len());
        let told = turn.clone();
        busbar_channel::know_sessions(move || told.sessions());
    }
    if fds.is_empty() {
        return Err("the server sent no connection".into());
    }
    let conn = Stream::take_over(fds.remove(0), &attach.keys.0)
        .map_err(|e| format!("the client's connection: {e}"))?;
    let client = Process::taken_over(attach.place, fds, attach.hello.client.clone());
    let common = Common {
        inventory: Inventory::of(outbox.clone()),
        outbox,
        turn,
        peers: Peers::default(),
        checkpoints: Checkpoints::default(),
    };
    let server = control.clone();
    common.peers.tell(move |report| {
        let _ = handover::send(&server, &report.to_json(), None);
    });
    let neighbours = match attach.swaps {
        true => Neighbours::at(control.clone(), common.turn.clone()),
        false => Neighbours::default(),
    };
    let opened = open(&attach, &conn, options, (given, neighbours), apis, &common);
    let Session {
        mut apis,
        ends,
        welcome,
    } = match opened {
        Ok(session) => session,
        Err(r) => {
            // First this: what nobody has said a word to is the server's to answer, with the same
            // keys.
            let why = r.message.clone();
            say(&Report::Ended { why });
            answer(&conn, &Welcome::refuse(r.clone()));
            return Err(r.message);
        }
    };
    let way = Arc::new(Way::new(options.rdma.clone()));
    let (conn, attached) = greet(Arc::new(conn), &attach, welcome, &way);
    let alone = options.rdma.wish == Wish::On;
    if let (true, Report::Attached { why: Some(why), .. }) = (alone, &attached) {
        // Its client hears of it when it comes back.
        let why = format!("this server takes sessions over RDMA alone (--rdma on): {why}");
        say(&Report::Ended { why: why.clone() });
        return Err(why);
    }
    say(&attached);
    let inventory = common.inventory.clone();
    let served = attend(
        &attach,
        client,
        conn,
        (ends, way),
        &mut apis,
        (&control, common),
        &options.withdraw,
    );
    say(&Report::Holds(inventory.holding()));
    let result = served.map_err(|e| format!("the server's worker cannot work ({e}): try later"));
    let why = result.as_ref().unwrap_or_else(|why| why).clone();
    say(&Report::Ended { why });
    result.map(drop)
}

/// One tenant's bug is that tenant's: nothing is unwound, the process goes at once.
fn abort_on_panic() {
    std::panic::set_hook(Box::new(|info| {
        crate::complain!("{info}");
        // Where stderr is looked through for what the driver says, a thread has to pass this on.
        std::thread::sleep(Duration::from_millis(50));
        std::process::abort();
    }));
}

/// A session that is ready for its client.
struct Session {
    /// The session's own, and those beside it.
    apis: Vec<Box<dyn Api>>,
    ends: Ends,
    welcome: Welcome,
}

/// Gets ready what the client of `attach` asks for.
fn open(
    attach: &Attach,
    conn: &dyn Connection,
    options: &Options,
    (given, neighbours): (Given, Neighbours),
    apis: &[Offered],
    common: &Common,
) -> Result<Session, Refusal> {
    let (outbox, inventory) = (&common.outbox, &common.inventory);
    let name = attach.hello.api.as_str();
    let Some(offered) = apis.iter().find(|a| a.name == name) else {
        let why = format!("this server does not offer `{name}`");
        return Err(Refusal::new("api", why));
    };
    let rdma = attach.hello.features.iter().any(|f| f == RDMA);
    if options.rdma.wish == Wish::On && !rdma {
        let why = "this server takes sessions over RDMA alone (--rdma on), and the client has \
                   none: its BUSBAR_LOG=info says why";
        return Err(Refusal::new("rdma", why));
    }
    switches::set_off(&attach.hello.off);
    let no_memory = |e| {
        let why = format!("the server has no memory for another session ({e}): try later");
        Refusal::new("internal", why)
    };
    let ends = Ends {
        outbox: outbox.clone(),
        content: Content::new(
            given.store.filter(|_| Switch::Content.on()),
            options.confined,
            outbox.clone(),
        ),
        callbacks: Callbacks::default(),
        ahead: Ahead::default(),
        incoming: Arena::new(SLABS_IN).map_err(no_memory)?,
        outgoing: Arena::new(SLABS_OUT).map_err(no_memory)?,
        at_once: AtOnce::default(),
        links: Links::new(Counters {
            links: inventory.counter("Link"),
            on_rdma: inventory.counter("LinkOnRdma"),
        })
        .map_err(no_memory)?,
        tally: inventory.tally.clone(),
        checkpoints: common.checkpoints.clone(),
    };
    let door = given.door.filter(|_| shares(attach));
    let shared = door.and_then(|d| Offers::open(Door::taken_over(d).ok()?, &attach.secret).ok());
    let welcome = first_welcome(attach, conn, shared.as_ref());
    let library = match name {
        "cuda" => &options.cuda_library,
        _ => &options.opencl_library,
    };
    inventory.gate.limit(Limit {
        most: attach.memory,
        of_each: attach.of_each,
    });
    let api = (offered.open)(Setup {
        shared,
        outbox: outbox.clone(),
        content: ends.content.clone(),
        callbacks: ends.callbacks.clone(),
        ahead: ends.ahead.clone(),
        incoming: ends.incoming.clone(),
        outgoing: ends.outgoing.clone(),
        links: ends.links.clone(),
        inventory: inventory.clone(),
        turn: common.turn.clone(),
        submitters: options.submitters,
        peers: common.peers.clone(),
        checkpoints: common.checkpoints.clone(),
        neighbours,
        dense: options.withdraw.is_some(),
        devices: Some(attach.devices.clone()),
        library: library.clone(),
        nvml: options.nvml_library.clone(),
        cupti: options.cupti_library.clone(),
        confined: options.confined,
    })?;
    let beside = Beside {
        outbox: outbox.clone(),
        at_once: ends.at_once.clone(),
        peers: common.peers.clone(),
        library: options.nccl_library.clone(),
    };
    let mut apis = vec![api];
    apis.extend((offered.beside)(beside));
    Ok(Session {
        apis,
        ends,
        welcome,
    })
}

/// Serves a session whose client has been welcomed, over this connection and those that follow it.
fn attend(
    attach: &Attach,
    client: Process,
    conn: Arc<dyn Connection>,
    (ends, way): (Ends, Arc<Way>),
    apis: &mut [Box<dyn Api>],
    (control, common): (&Arc<OwnedFd>, Common),
    withdraw: &Option<Withdraw>,
) -> std::io::Result<String> {
    let newest = Arc::new(Newest::default());
    let client = Arc::new(client);
    let keep = Duration::from_secs(attach.resume_seconds);
    let beside = (control.clone(), way.clone());
    let keeper = Wait::new(newest.clone(), client.clone(), keep, &*conn, beside);
    let links = ends.links.clone();
    let (inventory, checkpoints) = (common.inventory.clone(), common.checkpoints.clone());
    let (swaps, server) = (attach.swaps, control.clone());
    if swaps {
        checkpoints.can_swap(move || {
            let _ = handover::send(&server, &Report::Wanted.to_json(), None);
        });
    }
    let listen = |channel: &Channel| {
        // Whatever is between a client and us, and holds back the end of its connection, a client
        // of this host is seen to end.
        let bereft = channel.clone();
        std::thread::Builder::new()
            .name("client".into())
            .spawn(move || client.wait().then(|| bereft.disconnect()))?;
        let ears = Ears {
            control: control.clone(),
            common,
            news: attach.hello.features.iter().any(|f| f == NEWS),
            newest,
            way,
            channel: channel.clone(),
            links,
            withdraw: withdraw.clone(),
        };
        std::thread::Builder::new()
            .name("control".into())
            .spawn(move || ears.listen())
            .map(drop)
    };
    let ended = last_word(control.clone(), inventory, checkpoints, withdraw.clone());
    let ends = (ends, Some(ended));
    let mut apis: Vec<_> = apis.iter_mut().map(|api| &mut **api).collect();
    serve(conn, Box::new(keeper), ends, &mut apis, listen)
}

/// What is called when the client's side is over: whether the client said goodbye, why, and how far
/// the executor has come.
pub type LastWord = Box<dyn FnOnce(bool, &str, Arc<Progress>) + Send>;

/// Sees to it that a session that is over ends, even if its executor sits in a call of the driver's
/// that does not return: what the client held must be free again.
fn last_word(
    control: Arc<OwnedFd>,
    inventory: Inventory,
    checkpoints: Checkpoints,
    withdraw: Option<Withdraw>,
) -> LastWord {
    /// How long the executor may take to say its last word, and to end the process.
    const SAID: Duration = Duration::from_secs(5);
    Box::new(move |goodbye, why, progress| {
        let why = why.to_string();
        let patience = match goodbye {
            // Nothing goes on.
            _ if checkpoints.is_locked() => Patience::AFTER_LOSS,
            true => Patience::AFTER_GOODBYE,
            false => Patience::AFTER_LOSS,
        };
        let end = move || {
            match progress.wait(patience) {
                // The executor says its last word itself.
                Ok(()) => std::thread::sleep(SAID),
                Err(waited) => {
                    if let Some(withdraw) = withdraw {
                        withdraw();
                    }
                    if goodbye {
                        let ms = waited.as_millis();
                        crate::complain!(
                            "a session's end has taken {ms} ms and stands still: what its program \
                             had queued is left undone"
                        );
                    }
                    let holds = Report::Holds(inventory.holding());
                    let _ = handover::send(&control, &holds.to_json(), None);
                    let _ = handover::send(&control, &Report::Ended { why }.to_json(), None);
                }
            }
            // SAFETY: _exit has no preconditions.
            unsafe { libc::_exit(0) };
        };
        let thread = std::thread::Builder::new().name("end".into());
        if thread.spawn(end).is_err() {
            // SAFETY: as above. Nobody else would see to it.
            unsafe { libc::_exit(0) };
        }
    })
}

/// Serves one session, whose hello is done, until it is over; returns why it is. `opened` is called
/// once, before the first record is executed.
pub fn serve(
    conn: Arc<dyn Connection>,
    keeper: Box<dyn Keeper>,
    (ends, ended): (Ends, Option<LastWord>),
    apis: &mut Apis<'_>,
    opened: impl FnOnce(&Channel) -> std::io::Result<()>,
) -> std::io::Result<String> {
    let queue = Arc::new(Queue::default());
    let progress = Progress::new(queue.clone());
    let came = progress.clone();
    let (outbox, tally) = (ends.outbox.clone(), ends.tally.clone());
    let ended = ended.map(|f| -> Ended { Box::new(move |bye, why| f(bye, why, came)) });
    let staging = [ends.incoming.clone(), ends.outgoing.clone()];
    let intake = Intake::new(queue.clone(), ends, ended);
    let channel = Channel::start("worker", conn, Box::new(intake), keeper)?;
    for arena in &staging {
        // SAFETY: forgotten below. A slab that is sent from is lent until the client has it.
        unsafe { channel.kept().keep(arena.memory()) };
    }
    let rouse = queue.clone();
    channel.on_wake(move || rouse.rouse());
    outbox.connect(channel.clone());
    opened(&channel)?;
    let why = execute(apis, &queue, &channel, &tally);
    progress.step();
    if !outbox.closed() {
        outbox.goodbye(&why);
        channel.close(&why, Duration::from_millis(500));
    }
    progress.step();
    apis.iter_mut().for_each(|api| api.close());
    progress.finish();
    for arena in &staging {
        channel.kept().forget(arena.memory().start as usize);
    }
    Ok(why)
}

/// Serves one session without threads, for a fuzzer: [`busbar_channel::alone`]. `next` has the next
/// frame taken, until there is none.
pub fn serve_alone(
    conn: Arc<dyn Connection>,
    keeper: Box<dyn Keeper>,
    ends: Ends,
    apis: &mut Apis<'_>,
    mut next: impl FnMut() -> bool,
) -> std::io::Result<String> {
    let queue = Arc::new(Queue::default());
    let (outbox, tally) = (ends.outbox.clone(), ends.tally.clone());
    let intake = Intake::new(queue.clone(), ends, None);
    let channel = Channel::start("worker", conn, Box::new(intake), keeper)?;
    outbox.connect(channel.clone());
    let mut used = Vec::new();
    let why = loop {
        match queue.next(&mut used) {
            Next::Frame(f) => {
                let done = frame(apis, (&queue, &channel, &tally), f, &mut used);
                if let Err(e) = done {
                    break broken(&e);
                }
            }
            Next::Closed(why) => break why,
            Next::Empty if next() => {}
            Next::Empty => break "nothing more is said".into(),
        }
        poll(apis, true);
    };
    outbox.goodbye(&why);
    channel.close(&why, Duration::ZERO);
    apis.iter_mut().for_each(|api| api.close());
    Ok(why)
}

/// Whether memory may be shared: the client can, and says that it runs on this very kernel. Whether
/// that is true shows when it hands some over.
fn shares(a: &Attach) -> bool {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    a.hello.features.iter().any(|f| f == SHARED_MEMORY) && a.hello.client.boot_id == boot.trim()
}

/// After a pause of this length between records, threads that they may need are woken ahead.
const DOZE: Duration = Duration::from_millis(1);

/// The APIs whose records a session carries, by the number that a record has: the first is the one
/// that the session was opened for.
pub type Apis<'a> = [&'a mut (dyn Api + 'static)];

/// Has the API execute a record whose it is. This is the only place where that is decided.
#[inline]
fn dispatch(
    apis: &mut Apis<'_>,
    h: &Header,
    payload: &[u8],
    hold: &mut Hold<'_>,
) -> Result<(), WireError> {
    match (apis, h.api) {
        ([own, ..], 0) => own.execute(h, payload, hold),
        ([own, beside @ ..], n) => match beside.get_mut(usize::from(n) - 1) {
            Some(api) => api.execute_beside(&mut **own, h, payload),
            None => Err(WireError::BadValue("API of a record")),
        },
        ([], _) => Err(WireError::BadValue("API of a record")),
    }
}

/// Has every API look after what is in progress; whether one wants to be asked again soon.
fn poll(apis: &mut Apis<'_>, leisure: bool) -> bool {
    let mut busy = false;
    for api in apis {
        busy |= api.poll(leisure);
    }
    busy
}

/// The executor. Returns why the session is over.
fn execute(apis: &mut Apis<'_>, queue: &Queue, channel: &Channel, tally: &Tally) -> String {
    // SAFETY: plain prctl; polls of some microseconds need the finest timer slack.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    let mut idle = None::<Instant>;
    let mut used = Vec::new();
    loop {
        let next = match queue.next(&mut used) {
            Next::Frame(f) => f,
            Next::Closed(why) => return why,
            Next::Empty => {
                let busy = poll(apis, true);
                let since = idle.get_or_insert_with(Instant::now).elapsed();
                // Not by how long we have been idle: the client goes on when it is answered, which
                // may be long after the last record, whatever the answer has to wait for.
                if channel.alert() {
                    for _ in 0..16 {
                        std::hint::spin_loop();
                    }
                    std::thread::yield_now();
                } else if busy {
                    queue.wait(match since.as_millis() {
                        0 => Duration::from_micros(10),
                        _ if is_crowded() => nap(since),
                        _ => Duration::from_micros(50),
                    });
                } else {
                    queue.wait(Duration::from_secs(3600));
                    // Whatever woke us, more is likely to come.
                    idle = None;
                    apis.iter_mut().for_each(|api| api.wake());
                }
                continue;
            }
        };
        // Who waits for the device may have gone to sleep meanwhile, and will be needed.
        if idle.take().is_some_and(|t| t.elapsed() > DOZE) {
            apis.iter_mut().for_each(|api| api.wake());
        }
        if let Err(e) = frame(apis, (queue, channel, tally), next, &mut used) {
            return broken(&e);
        }
        // With nothing more to do it is asked at leisure.
        if queue.is_ready() {
            poll(apis, false);
        }
    }
}

fn broken(e: &WireError) -> String {
    format!("the client broke the protocol: {e}")
}

/// Executes a frame. `used` is its buffer then.
fn frame(
    apis: &mut Apis<'_>,
    (queue, channel, tally): (&Queue, &Channel, &Tally),
    Frame { seq, body }: Frame,
    used: &mut Vec<u8>,
) -> Result<(), WireError> {
    let (done, bytes) = match body {
        Body::Records(body) => {
            let done = records(apis, (channel, tally), &body, None);
            *used = body;
            (done, used.len())
        }
        Body::Bulk(slab, len) => {
            // SAFETY: the intake filled `len` bytes of the slab, and the slab outlives the slice:
            // `records` gets it as an option that only the API takes, which then keeps it; the
            // memory itself is not freed while the arena lives.
            let body = unsafe { std::slice::from_raw_parts(slab.ptr(), len) };
            (records(apis, (channel, tally), body, Some(slab)), len)
        }
    };
    queue.done(seq, bytes);
    done
}

fn records(
    apis: &mut Apis<'_>,
    (channel, tally): (&Channel, &Tally),
    body: &[u8],
    mut slab: Option<crate::staging::Lent>,
) -> Result<(), WireError> {
    let (mut all, mut asked) = (0, 0);
    for r in Records::new(body) {
        let (h, payload) = r?;
        // The intake has seen to these already.
        if h.op >= record::RESERVED {
            continue;
        }
        all += 1;
        if h.call != 0 {
            asked += 1;
            channel.asked();
        }
        let (h, mark, payload) = record::unmarked(h, payload)?;
        if let (Some(_), [own, ..]) = (mark, &mut *apis) {
            own.marked(mark);
        }
        dispatch(apis, &h, payload, &mut Hold { slab: &mut slab })?;
        if let (Some(_), [own, ..]) = (mark, &mut *apis) {
            own.marked(None);
        }
    }
    tally.done(all, asked);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers what it was asked with an error that has its name.
    struct Named(&'static str);

    impl Api for Named {
        fn execute(&mut self, _: &Header, _: &[u8], _: &mut Hold<'_>) -> Result<(), WireError> {
            Err(WireError::BadValue(self.0))
        }

        fn execute_beside(
            &mut self,
            _: &mut dyn Api,
            _: &Header,
            _: &[u8],
        ) -> Result<(), WireError> {
            Err(WireError::BadValue(self.0))
        }

        fn poll(&mut self, _leisure: bool) -> bool {
            self.0 == "busy"
        }

        fn close(&mut self) {}
    }

    #[test]
    fn a_record_goes_to_the_api_that_it_names_and_nowhere_else() {
        let (mut own, mut other) = (Named("own"), Named("busy"));
        let mut apis: [&mut dyn Api; 2] = [&mut own, &mut other];
        let said = |apis: &mut Apis<'_>, api| {
            let (len, op, call, aux) = (16, 0x0201, 0, 0);
            let h = Header {
                len,
                op,
                api,
                call,
                aux,
            };
            let done = dispatch(apis, &h, &[], &mut Hold { slab: &mut None });
            done.expect_err("each says its name").to_string()
        };
        assert_eq!(said(&mut apis, 0), WireError::BadValue("own").to_string());
        assert_eq!(said(&mut apis, 1), WireError::BadValue("busy").to_string());
        for none in [2, 256, u16::MAX] {
            let wrong = WireError::BadValue("API of a record");
            assert_eq!(said(&mut apis, none), wrong.to_string());
        }
        assert!(poll(&mut apis, true), "one is busy");
        assert!(!poll(&mut apis[..1], true));
    }
}
