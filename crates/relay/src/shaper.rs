//! When each byte may leave: one direction of a link, without I/O and without a clock.
//!
//! Bytes and times come in as arguments ([`Shaper::arrive`]), releases come out ([`Shaper::poll`]).
//! The link sends one segment at a time at its rate; a segment leaves the far end one delay after
//! its last byte was sent. Connections (flows) with something to send take turns, a segment each.
//! A stall stops the link's own clock, so nothing moves and nothing is lost.

use std::collections::VecDeque;

use crate::units::LinkSpec;

/// Nanoseconds on whichever clock the caller uses.
pub type Nanos = u64;

/// How a flow ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The sender has finished: everything before it arrives first.
    Fin,
    /// The connection was reset.
    Reset,
}

/// What a flow may do at the time asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// These many bytes may leave; the first of them were due at `due` (caller's clock).
    Bytes {
        /// How many bytes.
        bytes: usize,
        /// When the first of them were due.
        due: Nanos,
    },
    /// Everything has left and the end of the flow has arrived.
    End(End),
    /// Nothing before this time (caller's clock).
    NotBefore(Nanos),
    /// Nothing until something arrives.
    Idle,
}

/// Names a flow of a shaper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowId(usize);

#[derive(Clone, Copy)]
struct Chunk {
    /// When it arrived, or when it is due: link time.
    at: Nanos,
    bytes: usize,
}

#[derive(Default)]
struct Flow {
    /// Arrived, not yet given to the link.
    backlog: VecDeque<Chunk>,
    /// Given to the link, with the time each segment reaches the far end.
    in_flight: VecDeque<Chunk>,
    last_due: Nanos,
    not_before: Nanos,
    end: Option<(End, Nanos)>,
}

/// Maps the caller's clock to the link's, which stands still while the link is stalled.
#[derive(Clone, Copy, Default)]
struct Clock {
    /// Time lost to stalls before the latest one.
    lost: Nanos,
    /// The latest stall, possibly over: begin and end on the caller's clock.
    stall: (Nanos, Nanos),
}

impl Clock {
    fn on_links(&self, t: Nanos) -> Nanos {
        let (from, until) = self.stall;
        let in_stall = t.clamp(from, until) - from;
        t.saturating_sub(self.lost + in_stall)
    }

    fn on_callers(&self, t: Nanos) -> Nanos {
        let (from, until) = self.stall;
        let before = t + self.lost;
        if before < from {
            before
        } else {
            before + (until - from)
        }
    }

    fn stall(&mut self, now: Nanos, lasts: Nanos) {
        let (from, until) = self.stall;
        if now < until {
            self.stall.1 = until.max(now + lasts);
        } else {
            self.lost += until - from;
            self.stall = (now, now + lasts);
        }
    }

    fn resume(&mut self, now: Nanos) {
        self.stall.1 = self.stall.1.min(now.max(self.stall.0));
    }
}

/// One direction of a link, shared by all its flows.
pub struct Shaper {
    spec: LinkSpec,
    segment: usize,
    clock: Clock,
    /// When the link has sent what it was given so far: link time, and the part of a nanosecond
    /// left over, in units of 1/rate.
    busy_until: Nanos,
    remainder: u64,
    flows: Vec<Option<Flow>>,
    /// Flows with a backlog, in the order in which they take turns.
    turns: VecDeque<usize>,
    random: u64,
}

/// Bytes the link sends at a turn: about ten microseconds' worth, between an Ethernet frame and
/// what one call to the kernel moves well.
fn segment_size(rate_bps: Option<u64>) -> usize {
    match rate_bps {
        None => usize::MAX,
        Some(bps) => ((bps / 8 / 100_000) as usize).clamp(1500, 64 << 10),
    }
}

impl Shaper {
    /// A link of the given kind; `seed` drives the jitter.
    pub fn new(spec: LinkSpec, seed: u64) -> Self {
        Shaper {
            spec,
            segment: segment_size(spec.rate_bps),
            clock: Clock::default(),
            busy_until: 0,
            remainder: 0,
            flows: Vec::new(),
            turns: VecDeque::new(),
            random: seed.wrapping_mul(2).wrapping_add(1),
        }
    }

    /// Adds a flow; what arrives earlier than `not_before` counts as arriving then.
    pub fn open(&mut self, not_before: Nanos) -> FlowId {
        let flow = Flow {
            not_before,
            ..Flow::default()
        };
        if let Some(free) = self.flows.iter().position(Option::is_none) {
            self.flows[free] = Some(flow);
            return FlowId(free);
        }
        self.flows.push(Some(flow));
        FlowId(self.flows.len() - 1)
    }

    /// Forgets a flow and whatever it still held.
    pub fn close(&mut self, id: FlowId) {
        self.flows[id.0] = None;
        self.turns.retain(|&turn| turn != id.0);
    }

    fn flow(&mut self, id: FlowId) -> &mut Flow {
        self.flows[id.0]
            .as_mut()
            .expect("a flow is used only between open and close")
    }

    /// Bytes of a flow have reached the link.
    pub fn arrive(&mut self, id: FlowId, at: Nanos, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let flow = self.flows[id.0]
            .as_ref()
            .expect("a flow is used only between open and close");
        let at = self.clock.on_links(at.max(flow.not_before));
        let flow = self.flow(id);
        // Arrivals of one flow are in order, whatever the stamps say.
        let at = flow.backlog.back().map_or(at, |last| at.max(last.at));
        let was_empty = flow.backlog.is_empty();
        flow.backlog.push_back(Chunk { at, bytes });
        if was_empty {
            self.turns.push_back(id.0);
        }
    }

    /// The sender has closed its side or reset the connection. A reset is final.
    pub fn finish(&mut self, id: FlowId, at: Nanos, end: End) {
        let at = self.clock.on_links(at);
        let delay = self.spec.delay_ns;
        let flow = self.flow(id);
        if matches!(flow.end, Some((End::Reset, _))) {
            return;
        }
        let at = at.max(flow.not_before.saturating_sub(delay));
        flow.end = Some((end, at + delay));
    }

    /// Stops the link for a time; a stall during a stall can only lengthen it.
    pub fn stall(&mut self, now: Nanos, lasts: Nanos) {
        self.advance(now);
        self.clock.stall(now, lasts);
    }

    /// Ends a stall early.
    pub fn resume(&mut self, now: Nanos) {
        self.clock.resume(now);
    }

    fn jitter(&mut self) -> i64 {
        let span = self.spec.jitter_ns;
        if span == 0 {
            return 0;
        }
        // xorshift64: uniform enough, and the same for the same seed.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % (2 * span + 1)) as i64 - span as i64
    }

    /// Nanoseconds to send `bytes`, carrying the fraction over to the next segment.
    fn sending_time(&mut self, bytes: usize) -> Nanos {
        let Some(bps) = self.spec.rate_bps else {
            return 0;
        };
        let scaled = bytes as u128 * 8_000_000_000 + u128::from(self.remainder);
        self.remainder = (scaled % u128::from(bps)) as u64;
        (scaled / u128::from(bps)) as u64
    }

    /// The flow whose turn it is: the first that was there when the link became free, or else the
    /// first to arrive. Returns its position in `turns` and when its segment starts.
    fn next_turn(&self) -> Option<(usize, Nanos)> {
        let mut best: Option<(usize, Nanos)> = None;
        for (position, &index) in self.turns.iter().enumerate() {
            let head = self.flows[index].as_ref()?.backlog.front()?;
            if head.at <= self.busy_until {
                return Some((position, self.busy_until));
            }
            if best.is_none_or(|(_, at)| head.at < at) {
                best = Some((position, head.at));
            }
        }
        best
    }

    /// Gives the link every segment whose sending has begun by `now`.
    fn advance(&mut self, now: Nanos) {
        let now = self.clock.on_links(now);
        while let Some((position, start)) = self.next_turn() {
            if start > now {
                return;
            }
            let index = self
                .turns
                .remove(position)
                .expect("next_turn returns a valid position");
            if start > self.busy_until {
                self.remainder = 0;
            }
            let flow = self.flows[index]
                .as_mut()
                .expect("only open flows take turns");
            let head = flow
                .backlog
                .front_mut()
                .expect("only flows with a backlog take turns");
            let bytes = head.bytes.min(self.segment);
            head.bytes -= bytes;
            if head.bytes == 0 {
                flow.backlog.pop_front();
            }
            if !flow.backlog.is_empty() {
                self.turns.push_back(index);
            }
            self.busy_until = start + self.sending_time(bytes);
            let due = self.busy_until + self.spec.delay_ns;
            let due = due.saturating_add_signed(self.jitter()).max(start);
            let flow = self.flows[index]
                .as_mut()
                .expect("only open flows take turns");
            flow.last_due = flow.last_due.max(due);
            flow.in_flight.push_back(Chunk {
                at: flow.last_due,
                bytes,
            });
        }
    }

    /// What a flow may do at `now`. Released bytes are the caller's to deliver.
    pub fn poll(&mut self, id: FlowId, now: Nanos) -> Release {
        self.advance(now);
        // On the caller's clock: the link's stands still in a stall, and what becomes due at that
        // very moment has to wait for its end.
        let clock = self.clock;
        let due_now = |at| clock.on_callers(at) <= now;
        let link_now = clock.on_links(now);
        let (busy_until, delay) = (self.busy_until, self.spec.delay_ns);
        let flow = self.flow(id);
        let (mut bytes, mut due) = (0, 0);
        while let Some(chunk) = flow.in_flight.front().filter(|chunk| due_now(chunk.at)) {
            if bytes == 0 {
                due = chunk.at;
            }
            bytes += chunk.bytes;
            flow.in_flight.pop_front();
        }
        if bytes > 0 {
            return Release::Bytes {
                bytes,
                due: self.clock.on_callers(due),
            };
        }
        let not_before = if let Some(chunk) = flow.in_flight.front() {
            chunk.at
        } else if let Some(chunk) = flow.backlog.front() {
            // A lower bound: others may be served first. No earlier than one delay after the
            // link is free, less what jitter may take off.
            let earliest = chunk.at.max(busy_until) + delay;
            earliest
                .saturating_sub(self.spec.jitter_ns)
                .max(link_now + 1)
        } else if let Some((end, at)) = flow.end {
            let at = at.max(flow.last_due);
            if due_now(at) {
                flow.end = None;
                return Release::End(end);
            }
            at
        } else {
            return Release::Idle;
        };
        Release::NotBefore(self.clock.on_callers(not_before))
    }
}
