//! What becomes of connections: they break, swallow what they are given, are noticed to have gone,
//! and are made anew.

use super::{CLIENT, End, Event, LATENCY, Link, PATIENCE, WORKER, World, name};
use busbar_wire::frame::SIDES;
use busbar_wire::session::Stop;

impl World {
    pub(super) fn fault(&mut self) {
        let of = |e: &End| {
            let sides = e.sides.iter().map(|side| side.link);
            e.main.into_iter().chain(sides).collect::<Vec<_>>()
        };
        let present = self.ends.each_ref().map(of).concat();
        match self.rng.below(6) {
            0 => {
                self.link_down_until = (self.now + self.rng.below(100_000)).min(self.clears);
                note!(self, "the link is down until {}", self.link_down_until);
                present.iter().for_each(|l| self.cut(*l));
            }
            1 if !present.is_empty() => {
                let link = present[self.rng.below(present.len() as u64) as usize];
                note!(self, "connection {link} swallows everything");
                self.links[link].swallows = true;
            }
            _ if !present.is_empty() => {
                let link = present[self.rng.below(present.len() as u64) as usize];
                self.cut(link);
            }
            _ => {}
        }
    }

    /// A connection ends, for each end at a time of its own.
    pub(super) fn cut(&mut self, link: usize) {
        if std::mem::replace(&mut self.links[link].cut, true) {
            return;
        }
        note!(self, "connection {link} is cut");
        for end in [CLIENT, WORKER] {
            let last = self.now + self.rng.below(2 * LATENCY);
            self.links[link].pipes[end].ends = Some(last);
            // One that is swallowed shows nothing of its end either.
            if !self.links[link].swallows {
                let notices = last - self.now + self.rng.below(20_000);
                self.after(notices, Event::Lost { end, link });
            }
        }
    }

    /// An end has no side connections any more.
    fn cut_sides(&mut self, end: usize) {
        for side in std::mem::take(&mut self.ends[end].sides) {
            self.cut(side.link);
        }
    }

    /// An end finds that a connection is gone.
    pub(super) fn lost(&mut self, end: usize, link: usize) {
        self.cut(link);
        let epoch = self.links[link].epoch;
        let e = &mut self.ends[end];
        if let Some(side) = e.sides.iter().find(|side| side.link == link) {
            note!(self, "{} has lost side connection {link}", name(end));
            let both = e.tx.side_lost(e.tx.epoch(), side.number);
            assert_eq!(both, side.used, "a part is lost, or none");
            if let (true, Some(main)) = (both, e.main) {
                self.lost(end, main);
            }
        } else if e.main == Some(link) {
            note!(self, "{} has lost connection {link}", name(end));
            e.tx.detach(epoch);
            e.rx.detach();
            e.main = None;
            self.cut_sides(end);
            if end == CLIENT {
                self.soon(Event::Dial, 10_000);
            }
        }
    }

    /// Whether what is said at the beginning of a connection reaches `end` now.
    pub(super) fn passes(&self, link: usize, end: usize) -> bool {
        let l = &self.links[link];
        !l.swallows && l.pipes[end].ends.is_none_or(|e| self.now <= e)
    }

    pub(super) fn dial(&mut self) {
        if self.ends[CLIENT].main.is_some() || self.pending.is_some() {
            return;
        }
        if self.now < self.link_down_until {
            return self.soon(Event::Dial, 20_000);
        }
        let epoch = self.ends[CLIENT].tx.propose();
        let last = self.ends[CLIENT].rx.detach();
        let link = self.links.len();
        self.links.push(Link::new(epoch, false));
        self.pending = Some(link);
        note!(self, "client dials {link}, epoch {epoch}, has {last}");
        // A server may be busy before it hands a connection on.
        let storm = self.now < self.clears;
        let late = if storm && self.rng.one_in(3) {
            300_000
        } else {
            LATENCY
        };
        self.soon(Event::Hello { link, last }, late);
        if storm && self.rng.one_in(8) {
            self.soon(Event::Hello { link, last }, 300_000);
        }
        self.after(PATIENCE, Event::GiveUp { link });
        self.soon(Event::DialSide, 60_000);
    }

    pub(super) fn hello(&mut self, link: usize, last: u64) -> Result<(), String> {
        // One that was given up reaches the worker all the same: the server has it already.
        let epoch = self.links[link].epoch;
        let [_, worker] = &mut self.ends;
        if epoch <= worker.tx.epoch() {
            let stale = worker.tx.attach(epoch, last, |_, _, _| ());
            ensure!(stale == Err(Stop::Stale), "hello of {epoch}: {stale:?}");
            note!(self, "hello of {link} is stale");
            self.sums.stale_hellos += 1;
            return Ok(());
        }
        if let Some(old) = worker.main {
            if self.rng.one_in(2) {
                worker.tx.detach(worker.tx.epoch());
            }
            self.cut(old);
            self.cut_sides(WORKER);
        }
        let [_, worker] = &mut self.ends;
        let mine = worker.rx.detach();
        ensure!(mine == worker.got, "worker tells {mine} of {}", worker.got);
        let (mut freed, got) = (worker.freed, self.ends[CLIENT].got);
        let worker = &mut self.ends[WORKER];
        let attached = worker.tx.attach(epoch, last, |id, _, _| freed = id);
        ensure!(attached.is_ok(), "hello of {link}: {attached:?}");
        ensure!(freed <= got, "worker lets go of {freed}");
        worker.freed = freed;
        worker.rx.attach(epoch);
        worker.main = Some(link);
        note!(self, "worker takes {link}, has {mine}");
        let delay = 1 + self.rng.below(LATENCY);
        self.links[link].pipes[CLIENT].busy_until = self.now + delay;
        self.after(delay, Event::Welcome { link, last: mine });
        self.soon(Event::Push(WORKER), 50);
        self.pump_soon(WORKER);
        if self.links[link].pipes[WORKER].ends.is_some() {
            self.soon(Event::Lost { end: WORKER, link }, 5_000);
        }
        Ok(())
    }

    pub(super) fn welcome(&mut self, link: usize, last: u64) -> Result<(), String> {
        if self.pending != Some(link) || !self.passes(link, CLIENT) {
            return Ok(());
        }
        self.pending = None;
        let epoch = self.links[link].epoch;
        let [client, worker] = &mut self.ends;
        let mut freed = client.freed;
        let attached = client.tx.attach(epoch, last, |id, _, _| freed = id);
        ensure!(attached.is_ok(), "welcome on {link}: {attached:?}");
        ensure!(freed <= worker.got, "client lets go of {freed}");
        client.freed = freed;
        client.rx.attach(epoch);
        client.main = Some(link);
        client.last_heard = self.now;
        self.sums.resumed += 1;
        note!(self, "client goes on over {link}, worker has {last}");
        self.soon(Event::Push(CLIENT), 50);
        self.pump_soon(CLIENT);
        Ok(())
    }

    pub(super) fn dial_side(&mut self) {
        let client = &self.ends[CLIENT];
        if client.main.is_none() || self.rng.one_in(3) {
            return;
        }
        if client.tx.sides().is_none() {
            // The last one may be on its way, or there are enough.
            if client.sides.len() < SIDES.into() {
                self.soon(Event::DialSide, 20_000);
            }
            return;
        }
        let epoch = client.tx.epoch();
        let link = self.links.len();
        self.links.push(Link::new(epoch, true));
        self.soon(Event::HelloSide { link }, 2 * LATENCY);
    }
}
