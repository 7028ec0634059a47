//! What a worker hears from its server while it serves a session.

use crate::across::{Links, Mover};
use crate::checkpoint::Checkpoints;
use crate::inventory::Inventory;
use crate::keeper::Newest;
use crate::memory::Limit;
use crate::outbox::Outbox;
use crate::peers::{Heard, Peers};
use crate::prelude::*;
use crate::turn::Turn;
use crate::welcome::{Way, answer, attempt, welcome};
use busbar_channel::Channel;
use busbar_control::attach::{Answer, Attach, Hidden, Order, Question, Report};
use busbar_control::hello::{Intent, RDMA, Refusal, Road, Welcome};
use busbar_transport::handover;
use busbar_transport::rdma::Wish;
use busbar_transport::stream::Stream;
use std::os::fd::OwnedFd;

/// See [`Options::withdraw`].
pub type Withdraw = Arc<dyn Fn() + Send + Sync>;

/// What a session has, whatever it is of.
pub(crate) struct Common {
    pub outbox: Outbox,
    pub inventory: Inventory,
    pub turn: Turn,
    pub peers: Peers,
    pub checkpoints: Checkpoints,
}

/// Listens to the server for as long as the session lasts.
pub(crate) struct Ears {
    pub control: Arc<OwnedFd>,
    pub common: Common,
    /// Whether the client takes news.
    pub news: bool,
    pub newest: Arc<Newest>,
    pub way: Arc<Way>,
    pub channel: Channel,
    pub links: Links,
    pub withdraw: Option<Withdraw>,
}

impl Ears {
    pub fn listen(self) {
        while let Ok(Some((order, fds))) = handover::recv_all(&self.control) {
            let mut fds = fds.into_iter();
            match busbar_control::read("what the server says", &order) {
                Ok(Order::Ask { number, question }) => self.answer(number, question),
                Ok(Order::News { text, loss }) if self.news => self.common.outbox.news(&text, loss),
                Ok(Order::News { .. }) => {}
                Ok(Order::Lost(loss)) => self.common.peers.heard(&Heard::Lost(loss)),
                Ok(Order::Talk(talk)) => self.common.peers.heard(&Heard::Says(talk)),
                Ok(Order::Shared) => self.channel.rouse(),
                Ok(Order::Endless { why }) => {
                    let said = Report::Ended { why: why.clone() };
                    let _ = handover::send(&self.control, &said.to_json(), None);
                    self.common.turn.end();
                    if let Some(withdraw) = &self.withdraw {
                        withdraw();
                    }
                    self.common.outbox.leave(&why);
                }
                Ok(Order::Board | Order::Bell) => {}
                Ok(Order::Memory { most, of_each }) => {
                    self.common.inventory.gate.limit(Limit { most, of_each });
                }
                Ok(Order::Path { road }) => {
                    if self.way.take(road, self.channel.path()) {
                        self.channel.disconnect();
                    }
                    if road == Road::Tcp {
                        self.links.leave_rdma();
                    }
                }
                Ok(Order::End { why }) => {
                    let said = Report::Ended { why: why.clone() };
                    let _ = handover::send(&self.control, &said.to_json(), None);
                    self.common.outbox.leave(&why);
                }
                Ok(Order::Attach(attach)) if attach.hello.intent == Intent::Side => {
                    self.attach_side(&attach, fds.next());
                }
                Ok(Order::Attach(attach)) if attach.hello.intent == Intent::Try => {
                    self.try_way(attach, fds.next());
                }
                Ok(Order::Attach(attach)) if attach.hello.intent == Intent::Link => {
                    let end = taken(fds.next(), &attach.keys);
                    let way = self.way.of_links();
                    let asked = attach.hello.features.iter().any(|f| f == RDMA);
                    let moves = (asked && way.wish != Wish::Off).then_some(way);
                    // The other server passes its end on when it has the welcome, so it is that end
                    // which begins.
                    let mover = moves.map(|way| -> Mover { Box::new(move |c| way.take(c).conn) });
                    self.add_link(&attach, end.clone(), end, mover);
                }
                Ok(Order::Dialled { attach, keys, rdma }) => {
                    let client = taken(fds.next(), &attach.keys);
                    let way = self.way.of_links();
                    let mover = || -> Mover { Box::new(move |c| way.offer(c).conn) };
                    let mover = rdma.then(mover);
                    self.add_link(&attach, client, taken(fds.next(), &keys), mover);
                }
                // A client that comes back knows that its old connection is dead; from here a cut
                // link may look alive for long. Before the keeper gets the new one, or this would
                // end it.
                Ok(Order::Attach(attach)) => {
                    if let Some(fd) = fds.next() {
                        self.newest.put(*attach, fd, || self.channel.disconnect());
                    }
                }
                Err(_) => break,
            }
        }
        // The server is gone, and with it every right to go on.
        self.common.outbox.leave("the server ended");
    }

    /// Answers a question of the server's, now or once there is something to say.
    fn answer(&self, number: u64, question: Question) {
        let control = self.control.clone();
        let say = move |answer| {
            let said = Report::Answers { number, answer };
            let _ = handover::send(&control, &said.to_json(), None);
        };
        let checkpoints = &self.common.checkpoints;
        match question {
            Question::Holding => say(Answer::Holding(self.common.inventory.holding())),
            Question::Step(step) => checkpoints.step(step, move |r| say(Answer::Reached(r))),
            Question::Swap(way) => checkpoints.swap(way, move |r| say(Answer::Reached(r))),
        }
    }

    /// A side connection.
    fn attach_side(&self, attach: &Attach, fd: Option<OwnedFd>) {
        let Some(conn) = taken(fd, &attach.keys) else {
            return;
        };
        let side = self.channel.offer_side(conn.clone());
        let welcome = Welcome {
            side,
            ..welcome(attach, 0)
        };
        answer(&*conn, &welcome);
    }

    /// Sees whether a connection could move: on a thread, since it waits for the client.
    fn try_way(&self, attach: Box<Attach>, fd: Option<OwnedFd>) {
        let Some(conn) = taken(fd, &attach.keys) else {
            return;
        };
        let way = self.way.clone();
        let run = move || way.alone(|| attempt(conn, &attach, &way));
        // Without it the client tries again later.
        let _ = std::thread::Builder::new().name("try".into()).spawn(run);
    }

    /// A link. Whoever waits to hear of that does so by a connection of its own, or by the link's.
    fn add_link(
        &self,
        attach: &Attach,
        asker: Option<Arc<Stream>>,
        link: Option<Arc<Stream>>,
        mover: Option<Mover>,
    ) {
        let (Some(asker), Some(link)) = (asker, link) else {
            return;
        };
        let features = mover.iter().map(|_| RDMA.into()).collect();
        let welcome = match self.links.add(attach.hello.link.number, link, mover) {
            Ok(()) => Welcome {
                features,
                ..welcome(attach, 0)
            },
            Err(e) => Welcome::refuse(Refusal::new("link", e.to_string())),
        };
        answer(&*asker, &welcome);
    }
}

/// A connection that the server has handed over.
fn taken(fd: Option<OwnedFd>, keys: &Hidden) -> Option<Arc<Stream>> {
    Some(Arc::new(Stream::take_over(fd?, &keys.0).ok()?))
}
