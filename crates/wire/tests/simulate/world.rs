//! The two ends of a session, what lies between them, and what must hold at every step.
//!
//! - Every frame is delivered and executed once, in order.
//! - Nothing is acknowledged that was not received, nothing said to be executed that was not.
//! - Nothing is let go of that the peer does not have.
//! - What comes by a connection that is not the present one is stale, and nothing else is.
//! - The window holds no more than it may.
//! - A silent peer is found out in time, and one that answers never counts as silent.
//! - Once the weather has cleared, all is delivered, executed and acknowledged within [`CALM`].

use crate::rng::Rng;
use crate::sums::Sums;
use busbar_wire::frame::{HEADER, Header, Kind};
use busbar_wire::session::{
    self, Arriving, Aside, Bounds, Execution, Named, Receiver, SPLIT_FROM, Sender, Stop,
};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Microseconds. How long a peer may be silent, ...
const SILENCE: u64 = 400_000;
/// ... how long a client waits for a welcome, ...
const PATIENCE: u64 = 60_000;
/// ... how often a worker that does not read says that it lives, ...
const TELL: u64 = 20_000;
/// ... how long a frame may be under way, ...
const LATENCY: u64 = 5_000;
/// ... and how long it may take until all is done, once nothing breaks any more.
const CALM: u64 = 4_000_000;
/// Frames that a worker's queue holds before it stops reading.
const QUEUE: usize = 6;
/// Bytes that a connection takes before its receiver has them.
const PIPE: usize = 1 << 20;

const CLIENT: usize = 0;
const WORKER: usize = 1;

/// A frame on its way, or the part of one on a side connection.
struct Item {
    header: Header,
    /// When its header and its last byte arrive.
    begins: u64,
    ends: u64,
    /// Its header has been read.
    begun: bool,
}

/// One direction of a connection.
#[derive(Default)]
struct Pipe {
    items: VecDeque<Item>,
    bytes: usize,
    /// Nothing arrives after this.
    ends: Option<u64>,
    busy_until: u64,
    /// Somebody is to look at the first item.
    scheduled: bool,
}

/// A main or side connection. `pipes[e]` is what end `e` receives.
struct Link {
    epoch: u64,
    pipes: [Pipe; 2],
    is_side: bool,
    /// It swallows everything, and nobody notices.
    swallows: bool,
    cut: bool,
}

/// A side connection that an end has.
struct Beside {
    link: usize,
    number: u64,
    /// Parts of frames have gone over it, or should have.
    used: bool,
}

/// One end of the session.
struct End {
    tx: Sender<u64>,
    rx: Receiver,
    execution: Arc<Execution>,
    main: Option<usize>,
    sides: Vec<Beside>,
    /// Frames to queue, frames queued, and the size of the next.
    total: u64,
    pushed: u64,
    next_len: usize,
    /// How long each frame is.
    lens: Vec<usize>,
    /// Frames delivered here; frames that the window let go of.
    got: u64,
    freed: u64,
    /// Frames that wait to be executed, in each stage; whether each is at work.
    waiting: [VecDeque<u64>; 2],
    at_work: [bool; 2],
    /// Which frames are executed, and how many of the first of them.
    executed: Vec<bool>,
    prefix: u64,
    pump_due: bool,
    /// Highest frame that was ever sent.
    sent: u64,
    last_heard: u64,
    owed_since: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Push(usize),
    Pump(usize),
    Arrive { link: usize, end: usize },
    Execute { stage: usize },
    Tell,
    Look,
    Want(usize),
    Fault,
    Lost { end: usize, link: usize },
    Dial,
    Hello { link: usize, last: u64 },
    Welcome { link: usize, last: u64 },
    GiveUp { link: usize },
    DialSide,
    HelloSide { link: usize },
    WelcomeSide { link: usize, number: u64 },
    Overdue { end: usize, link: usize, seq: u64 },
}

pub struct World {
    rng: Rng,
    tell: bool,
    now: u64,
    clears: u64,
    faults: u64,
    order: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    links: Vec<Link>,
    ends: [End; 2],
    /// The connection that the client waits for a welcome on.
    pending: Option<usize>,
    /// Side connections by the worker's number.
    offered: Vec<usize>,
    link_down_until: u64,
    window: usize,
    sums: Sums,
}

macro_rules! note {
    ($w:expr, $($text:tt)*) => {
        if $w.tell { println!("{:>9} us  {}", $w.now, format_args!($($text)*)); }
    };
}

macro_rules! ensure {
    ($holds:expr, $($text:tt)*) => {
        if !$holds { return Err(format!($($text)*)); }
    };
}

// Behind the macros, which it uses.
mod weather;

fn name(end: usize) -> &'static str {
    ["client", "worker"][end]
}

impl World {
    pub fn new(mut rng: Rng, tell: bool) -> Self {
        let window = 1usize << (9 + rng.below(14));
        let bounds = |silence| Bounds {
            window,
            ack_every: window / 2,
            silence,
        };
        let stormy = !rng.one_in(8);
        let faults = if stormy { 1 + rng.below(14) } else { 0 };
        let clears = if stormy {
            20_000 + rng.below(400_000)
        } else {
            0
        };
        let most = 4 + rng.below(100);
        let mut end = |silence| {
            let execution = Arc::<Execution>::default();
            let (tx, rx) = session::new(bounds(silence), execution.clone());
            End {
                tx,
                rx,
                execution,
                main: Some(0),
                sides: Vec::new(),
                total: 1 + rng.below(most),
                pushed: 0,
                next_len: 50,
                lens: Vec::new(),
                got: 0,
                freed: 0,
                waiting: Default::default(),
                at_work: [false; 2],
                executed: Vec::new(),
                prefix: 0,
                pump_due: false,
                sent: 0,
                last_heard: 0,
                owed_since: None,
            }
        };
        let ends = [end(Some(Duration::from_micros(SILENCE))), end(None)];
        Self {
            rng,
            tell,
            now: 0,
            clears,
            faults,
            order: 0,
            events: BinaryHeap::new(),
            links: vec![Link::new(0, false)],
            ends,
            pending: None,
            offered: Vec::new(),
            link_down_until: 0,
            window,
            sums: Sums::default(),
        }
    }

    pub fn run(mut self) -> Result<Sums, String> {
        for end in [CLIENT, WORKER] {
            self.after(0, Event::Push(end));
        }
        self.after(0, Event::Look);
        self.soon(Event::DialSide, 20_000);
        for _ in 0..self.faults {
            let at = self.rng.below(self.clears);
            self.after(at, Event::Fault);
        }
        // Until then whoever is owed a word must have asked for it unbidden.
        let late = if self.rng.one_in(4) { 3 * SILENCE } else { 0 };
        for end in [CLIENT, WORKER] {
            self.after(self.clears + late, Event::Want(end));
        }
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            self.now = at;
            ensure!(at < self.clears + CALM, "no progress: {}", self.state());
            self.step(event)?;
            if self.is_done() {
                self.sums.frames += self.ends[CLIENT].got + self.ends[WORKER].got;
                return Ok(self.sums);
            }
        }
        Err(format!("nothing is left to happen: {}", self.state()))
    }

    fn state(&self) -> String {
        let of = |e: &End| {
            let (acked, epoch) = (e.tx.board().acked(), e.tx.epoch());
            let (total, pushed, got, done) = (e.total, e.pushed, e.got, e.prefix);
            format!(
                "queued {pushed} of {total}, {acked} acknowledged, got {got}, executed {done}, \
                 epoch {epoch}, connection {:?}",
                e.main
            )
        };
        format!("client {}; worker {}", of(&self.ends[0]), of(&self.ends[1]))
    }

    fn is_done(&self) -> bool {
        // A client that is owed nothing does not ask, and so a worker may never hear that all of
        // its frames are there.
        let unheard = |e: &End| e.main.is_none_or(|main| self.links[main].swallows);
        let done = |a: &End, b: &End, unheard: bool| {
            let acked = a.tx.board().acked() == a.total || unheard;
            a.pushed == a.total && acked && b.prefix == a.total
        };
        let [a, b] = &self.ends;
        self.now >= self.clears && done(a, b, false) && done(b, a, unheard(b))
    }

    fn after(&mut self, delay: u64, event: Event) {
        self.order += 1;
        let at = self.now + delay;
        self.events.push(Reverse((at, self.order, event)));
    }

    fn soon(&mut self, event: Event, within: u64) {
        let delay = self.rng.below(within);
        self.after(delay, event);
    }

    fn pump_soon(&mut self, end: usize) {
        if !std::mem::replace(&mut self.ends[end].pump_due, true) {
            self.soon(Event::Pump(end), 100);
        }
    }

    fn step(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Push(end) => return self.push(end),
            Event::Pump(end) => return self.pump(end),
            Event::Arrive { link, end } => return self.arrive(link, end),
            Event::Execute { stage } => return self.execute(stage),
            Event::Tell => {
                if self.blocked(WORKER) {
                    self.ends[WORKER].tx.board().acknowledge();
                    self.pump_soon(WORKER);
                    self.after(TELL, Event::Tell);
                }
            }
            Event::Look => return self.look(),
            Event::Want(end) => {
                let e = &mut self.ends[end];
                e.tx.want(e.tx.last());
                self.pump_soon(end);
                if self.now >= self.clears {
                    self.after(50_000, Event::Want(end));
                }
            }
            Event::Fault => self.fault(),
            Event::Lost { end, link } => self.lost(end, link),
            Event::Dial => self.dial(),
            Event::Hello { link, last } => return self.hello(link, last),
            Event::Welcome { link, last } => return self.welcome(link, last),
            Event::GiveUp { link } => {
                if self.pending == Some(link) {
                    note!(self, "client gives up on connection {link}");
                    self.pending = None;
                    self.cut(link);
                    self.soon(Event::Dial, 5_000);
                }
            }
            Event::DialSide => self.dial_side(),
            Event::HelloSide { link } => {
                if self.passes(link, WORKER) {
                    let number = self.ends[WORKER].tx.offer_side();
                    self.offered.push(link);
                    assert_eq!(self.offered.len() as u64, number);
                    self.soon(Event::WelcomeSide { link, number }, LATENCY);
                }
            }
            Event::WelcomeSide { link, number } => {
                let epoch = self.links[link].epoch;
                let client = &mut self.ends[CLIENT];
                if self.links[link].pipes[CLIENT].ends.is_none()
                    && client.tx.open_side(epoch, number).is_ok()
                {
                    note!(self, "client has side connection {link}, number {number}");
                    client.sides.push(Beside::new(link, number));
                    self.pump_soon(CLIENT);
                    self.soon(Event::DialSide, 20_000);
                } else {
                    self.cut(link);
                }
            }
            Event::Overdue { end, link, seq } => {
                let first = self.links[link].pipes[end].items.front();
                if self.ends[end].main == Some(link)
                    && first.is_some_and(|i| i.begun && i.header.seq == seq)
                {
                    note!(self, "{} waits no longer for half of {seq}", name(end));
                    self.lost(end, link);
                }
            }
        }
        Ok(())
    }

    // What the ends do.

    fn push(&mut self, end: usize) -> Result<(), String> {
        let rng = &mut self.rng;
        let e = &mut self.ends[end];
        if e.pushed == e.total {
            return Ok(());
        }
        let kept: usize = e.lens[e.freed as usize..].iter().sum();
        ensure!(
            e.tx.has_room(0) == (kept <= self.window),
            "{} holds {kept} bytes in a window of {}",
            name(end),
            self.window
        );
        if kept > self.window {
            self.sums.full_windows += 1;
            return Ok(()); // Until something is acknowledged.
        }
        e.pushed += 1;
        let len = e.next_len;
        e.lens.push(len);
        e.next_len = match rng.below(4) {
            0 => SPLIT_FROM + rng.below(1 << 19) as usize,
            _ => 30 + rng.magnitude(self.window as u64 * 2).min(4 << 20) as usize,
        };
        e.tx.push(e.pushed, len, len >= SPLIT_FROM);
        if rng.one_in(4) {
            e.tx.want(e.tx.last());
        }
        let pause = if rng.one_in(4) { 30_000 } else { 300 };
        self.soon(Event::Push(end), pause);
        self.pump_soon(end);
        Ok(())
    }

    fn pump(&mut self, end: usize) -> Result<(), String> {
        self.ends[end].pump_due = false;
        let peer = 1 - end;
        loop {
            let e = &mut self.ends[end];
            let Some(main) = e.main else { return Ok(()) };
            let full = |l: &Link| l.pipes[peer].bytes >= PIPE;
            if full(&self.links[main]) {
                return Ok(()); // Until something is read.
            }
            let Some(t) = e.tx.poll() else { return Ok(()) };
            let (h, id, aside) = (t.header, t.frame.copied(), t.aside);
            ensure!(h.ack <= e.got, "{} acknowledges too much: {h:?}", name(end));
            let said = h.executed();
            ensure!(said <= e.prefix, "{} has not executed {said}", name(end));
            if e.waiting.iter().all(VecDeque::is_empty) && !e.at_work.contains(&true) {
                ensure!(said == e.got, "{} has executed more than {said}", name(end));
            }
            if let Some(id) = id {
                ensure!(h.seq == id, "frame {id} is sent as {}", h.seq);
                self.sums.resent += u64::from(id <= e.sent);
                e.sent = e.sent.max(id);
            }
            ensure!(
                id.is_some() == (h.kind == Kind::Data),
                "a frame without its body"
            );
            self.sums.pings += u64::from(h.kind == Kind::Ping);
            let parsed = Header::parse(&h.to_bytes());
            ensure!(parsed == Ok(h), "{h:?} is read as {parsed:?}");
            note!(self, "{} sends {h:?}, {aside:?}", name(end));
            self.sums.split += u64::from(aside.sides > 0);
            self.sums.in_many += u64::from(aside.sides > 1);
            for i in 0..aside.sides {
                let Some(side) = self.ends[end].sides.get_mut(i) else {
                    return Err(format!("{} has no side connection {i}", name(end)));
                };
                side.used = true;
                let link = side.link;
                self.put(link, peer, h, aside.each);
            }
            self.put(main, peer, h, HEADER + h.len as usize - aside.bytes());
        }
    }

    /// Puts a frame, or part of one, on its way to `to`.
    fn put(&mut self, link: usize, to: usize, header: Header, len: usize) {
        let (fast, rng) = (self.rng.one_in(2), &mut self.rng);
        let latency = if fast { 50 } else { LATENCY };
        let pipe = &mut self.links[link].pipes[to];
        let begins = (self.now + 1 + rng.below(latency)).max(pipe.busy_until);
        let ends = begins + rng.below(1 + len as u64 / 200);
        pipe.busy_until = ends;
        // What carries the bytes may be odd enough to repeat some.
        let whole = header.flags == 0 && self.now < self.clears;
        let times = if whole && rng.one_in(64) { 2 } else { 1 };
        self.sums.repeated += times - 1;
        for _ in 0..times {
            pipe.bytes += len;
            pipe.items.push_back(Item {
                header,
                begins,
                ends,
                begun: false,
            });
        }
        self.schedule(link, to);
    }

    /// Has end `to` look at the first thing that comes by a connection, when it comes.
    fn schedule(&mut self, link: usize, to: usize) {
        let swallows = self.links[link].swallows;
        let pipe = &mut self.links[link].pipes[to];
        let Some(item) = pipe.items.front() else {
            return;
        };
        let at = if item.begun { item.ends } else { item.begins };
        let gone = pipe.ends.is_some_and(|end| at > end);
        if gone && item.begun {
            self.sums.torn += 1;
        }
        if pipe.scheduled || swallows || gone {
            return;
        }
        pipe.scheduled = true;
        let delay = at.saturating_sub(self.now);
        self.after(delay, Event::Arrive { link, end: to });
    }

    /// Whether an end does not read at the moment.
    fn blocked(&self, end: usize) -> bool {
        self.ends[end].waiting.iter().any(|w| w.len() > QUEUE)
    }

    fn arrive(&mut self, link: usize, end: usize) -> Result<(), String> {
        let l = &mut self.links[link];
        let (epoch, is_side) = (l.epoch, l.is_side);
        l.pipes[end].scheduled = false;
        if l.swallows {
            return Ok(());
        }
        if is_side {
            // Whoever waits for it looks again.
            if let Some(main) = self.ends[end].main {
                self.schedule(main, end);
            }
            return Ok(());
        }
        let present = self.ends[end].main == Some(link);
        if present && self.blocked(end) {
            return Ok(()); // Until something is executed.
        }
        let l = &mut self.links[link];
        let Some(item) = l.pipes[end].items.front_mut() else {
            return Ok(());
        };
        let (h, begun) = (item.header, item.begun);
        item.begun = true;
        if present {
            self.ends[end].rx.heard();
            self.ends[end].last_heard = self.now;
        }
        if !begun {
            self.begins(link, end, epoch, &h, present)?;
        } else if self.ends(link, end, epoch, &h, present)? {
            let pipe = &mut self.links[link].pipes[end];
            let parts = if h.kind == Kind::Data { h.flags } else { 0 };
            let aside = Aside::of(h.len as usize, parts.into()).unwrap_or_default();
            pipe.bytes -= HEADER + h.len as usize - aside.bytes();
            pipe.items.pop_front();
            self.pump_soon(1 - end);
        } else {
            return Ok(());
        }
        self.schedule(link, end);
        Ok(())
    }

    /// A header is read.
    fn begins(
        &mut self,
        link: usize,
        end: usize,
        epoch: u64,
        h: &Header,
        present: bool,
    ) -> Result<(), String> {
        let e = &mut self.ends[end];
        let arriving = match e.rx.header(epoch, h) {
            Ok(a) => a,
            Err(Stop::Stale) => {
                ensure!(!present, "{}: {h:?} counts as stale", name(end));
                self.sums.stale_frames += 1;
                return Ok(());
            }
            Err(e) => return Err(format!("{}: {h:?}: {e:?}", name(end))),
        };
        ensure!(present, "{}: {h:?} is not stale", name(end));
        match arriving {
            Arriving::Data { aside, .. } if aside.sides > 0 => {
                let parts = e.sides.iter_mut().take(aside.sides);
                parts.for_each(|side| side.used = true);
                if let Err(e) = e.tx.sides_expected(epoch, aside.sides) {
                    return Err(format!("{}: {h:?}: {e:?}", name(end)));
                }
                if end == CLIENT {
                    let seq = h.seq;
                    self.after(SILENCE + SILENCE / 4, Event::Overdue { end, link, seq });
                }
            }
            Arriving::NamesSide(number) => match e.tx.side_named(epoch, number) {
                Ok(Named::Take) => {
                    let side = self.offered[number as usize - 1];
                    note!(self, "{} takes side connection {side}", name(end));
                    self.ends[end].sides.push(Beside::new(side, number));
                    self.pump_soon(end);
                    if self.links[side].pipes[end].ends.is_some() {
                        self.lost(end, side);
                    }
                }
                Ok(Named::Nothing) => {}
                Err(e) => return Err(format!("{}: {h:?}: {e:?}", name(end))),
            },
            _ => {}
        }
        Ok(())
    }

    /// The last byte is here. False if a part of it is not.
    fn ends(
        &mut self,
        link: usize,
        end: usize,
        epoch: u64,
        h: &Header,
        present: bool,
    ) -> Result<bool, String> {
        if present && h.kind == Kind::Data && h.flags > 0 {
            let parts: Vec<_> = self.ends[end].sides.iter().map(|side| side.link).collect();
            let Some(parts) = parts.get(..h.flags.into()) else {
                return Ok(false); // One was lost, and so will be this.
            };
            let now = self.now;
            for &side in parts {
                let swallows = self.links[side].swallows;
                let pipe = &self.links[side].pipes[end];
                let gone = |i: &Item| swallows || pipe.ends.is_some_and(|e| i.ends > e);
                match pipe.items.front() {
                    Some(part) if !gone(part) && part.ends <= now => {}
                    part => {
                        let at = part.filter(|i| !gone(i)).map(|i| i.ends);
                        let at = at.map(|at| at.saturating_sub(now).max(1));
                        if let Some(delay) = at {
                            self.links[link].pipes[end].scheduled = true;
                            self.after(delay, Event::Arrive { link, end });
                        }
                        return Ok(false);
                    }
                }
            }
            for &side in parts {
                let part = self.links[side].pipes[end].items.pop_front();
                let seq = part.map(|p| p.header.seq);
                ensure!(
                    seq == Some(h.seq),
                    "a part of {seq:?} would end up in {}",
                    h.seq
                );
            }
        }
        let e = &mut self.ends[end];
        let new = match e.rx.complete(epoch, h) {
            Ok(new) => new,
            Err(Stop::Stale) if !present => return Ok(true),
            Err(e) => return Err(format!("{}: end of {h:?}: {e:?}", name(end))),
        };
        ensure!(present, "{}: {h:?} is not stale", name(end));
        if new {
            self.deliver(end, h.seq)?;
        }
        if self.ends[end].rx.done(h) {
            self.pump_soon(end);
        }
        let [a, b] = &mut self.ends;
        let (e, peer) = if end == CLIENT { (a, b) } else { (b, a) };
        let (mut lost, mut freed) = (None, e.freed);
        let acked = e.tx.acknowledged(epoch, h.ack, |id, _, _| {
            if id != freed + 1 || id > peer.got {
                lost = Some(id);
            }
            freed = id;
        });
        ensure!(acked.is_ok(), "{}: {h:?}: {acked:?}", name(end));
        ensure!(lost.is_none(), "{} lets go of {lost:?}", name(end));
        if freed > e.freed {
            e.freed = freed;
            self.soon(Event::Push(end), 50);
        }
        Ok(true)
    }

    fn deliver(&mut self, end: usize, seq: u64) -> Result<(), String> {
        let e = &mut self.ends[end];
        ensure!(seq == e.got + 1, "{} gets {seq} after {}", name(end), e.got);
        e.got = seq;
        e.executed.push(false);
        if end == CLIENT {
            e.done(seq);
            return Ok(());
        }
        let parts = match self.rng.below(8) {
            0 => [false, false],
            1 => [false, true],
            2 => [true, true],
            _ => [true, false],
        };
        for (stage, _) in parts.iter().enumerate().filter(|(_, p)| **p) {
            let e = &mut self.ends[end];
            e.execution.stages[stage].enter(seq);
            e.waiting[stage].push_back(seq);
            if !std::mem::replace(&mut e.at_work[stage], true) {
                self.soon(Event::Execute { stage }, 2_000);
            }
        }
        if parts == [false, false] {
            self.ends[end].done(seq);
        }
        if self.blocked(end) {
            self.sums.full_queues += 1;
            self.after(TELL, Event::Tell);
        }
        Ok(())
    }

    fn execute(&mut self, stage: usize) -> Result<(), String> {
        let was_blocked = self.blocked(WORKER);
        let e = &mut self.ends[WORKER];
        let Some(seq) = e.waiting[stage].pop_front() else {
            return Err("an executor without work".into());
        };
        ensure!(!e.executed[seq as usize - 1], "{seq} is executed twice");
        if !e.waiting[1 - stage].contains(&seq) {
            e.done(seq);
        }
        e.execution.stages[stage].leave(seq);
        e.at_work[stage] = !e.waiting[stage].is_empty();
        if e.at_work[stage] {
            let long = if self.rng.one_in(20) { 60_000 } else { 2_000 };
            self.soon(Event::Execute { stage }, long);
        }
        if was_blocked
            && !self.blocked(WORKER)
            && let Some(main) = self.ends[WORKER].main
        {
            self.schedule(main, WORKER);
        }
        Ok(())
    }

    /// The client's receiving thread has nothing to receive.
    fn look(&mut self) -> Result<(), String> {
        let replies = self.ends[WORKER].total;
        let client = &mut self.ends[CLIENT];
        let mut next = SILENCE / 4;
        if let Some(main) = client.main {
            let owed = client.tx.board().is_owed() || client.got < replies;
            client.owed_since = client.owed_since.filter(|_| owed);
            let since = *client.owed_since.get_or_insert(self.now);
            let silent = self.now - client.last_heard.max(since);
            match client.rx.waits(Duration::from_micros(self.now), owed) {
                Ok((wait, asks)) => {
                    ensure!(
                        !owed || silent <= 2 * SILENCE,
                        "the worker has been silent for {silent} us"
                    );
                    next = wait.map_or(next, |w| w.as_micros() as u64);
                    if asks {
                        self.pump_soon(CLIENT);
                    }
                }
                Err(_) => {
                    note!(self, "the worker counts as silent on {main}");
                    let mut sides = self.ends[WORKER].sides.iter();
                    let sound = |l: &Link| !l.swallows && !l.cut;
                    let answers =
                        sound(&self.links[main]) && sides.all(|s| sound(&self.links[s.link]));
                    ensure!(
                        !answers && silent * 4 >= SILENCE * 3,
                        "silent for {silent} us only"
                    );
                    self.sums.silent += 1;
                    self.lost(CLIENT, main);
                }
            }
        }
        self.after(next, Event::Look);
        Ok(())
    }
}

impl Beside {
    fn new(link: usize, number: u64) -> Self {
        Self {
            link,
            number,
            used: false,
        }
    }
}

impl Link {
    fn new(epoch: u64, is_side: bool) -> Self {
        Self {
            epoch,
            pipes: Default::default(),
            is_side,
            swallows: false,
            cut: false,
        }
    }
}

impl End {
    /// A frame has been executed.
    fn done(&mut self, seq: u64) {
        self.executed[seq as usize - 1] = true;
        let more = self.executed[self.prefix as usize..].iter();
        self.prefix += more.take_while(|e| **e).count() as u64;
    }
}
