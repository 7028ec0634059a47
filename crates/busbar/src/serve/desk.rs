//! Where leases are asked for: a client stands in line over its connection, takes what it is
//! offered, and has it for as long as the connection lasts, or for a time if it says so. What it is
//! offered the pool decides.

use super::asking::{asker, settled};
use super::groups::Group;
use super::identity::Known;
use super::jobs;
use super::reception::{ANSWER_TIME, answer};
use super::state::Server;
use busbar_channel::recv_hello;
use busbar_control::hello::{LEASES, Refusal, Welcome};
use busbar_control::lease::{Reserve, Standing, Word};
use busbar_control::status;
use busbar_control::succession::ToHeir;
use busbar_control::talk::Loss;
use busbar_pool::queue::Want;
use busbar_pool::{Ask, Ended, State};
use busbar_transport::Connection;
use busbar_transport::lock::lock;
use busbar_transport::stream::Stream;
use busbar_wire::frame::Kind;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// How often is looked whether somebody who waits is offered something else.
const LOOK: Duration = Duration::from_millis(50);
/// And whether somebody who has a lease is still let in, and has it.
const LEASE_LOOK: Duration = Duration::from_millis(100);
/// How much longer than it says somebody may stand in line: it gives up by itself, in a sentence of
/// its own.
const MARGIN: Duration = Duration::from_secs(15);
/// The longest that somebody may stand in line, or have a lease that is kept.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// By how much the clocks of two servers may differ for somebody to wait at both.
const SKEW: u64 = 60_000;
/// The shortest name of a lease: nobody guesses it.
const LEAST_NAME: usize = 32;

/// Stands in line with somebody, and holds the lease. If another server takes this one's place
/// meanwhile: since when somebody waits, who has to stand in line there.
pub(super) fn lease(
    server: &Arc<Server>,
    known: &Known,
    refuse: impl Fn(&Stream, Refusal),
) -> Option<u64> {
    let Known { conn, hello, .. } = known;
    let refuse = |conn: &Stream, r: Refusal| {
        refuse(conn, r);
        None
    };
    let reserve = match &hello.reserve {
        Some(r) => r,
        None => {
            let text = "this server takes no lease of an older release: install the same release \
                        of Busbar on both sides";
            return refuse(conn, Refusal::new("lease", text));
        }
    };
    if let Err(r) = check(reserve) {
        return refuse(conn, r);
    }
    let c = &hello.client;
    let holder = format!("{}@{} ({})", c.user, c.host, c.program);
    let since = since(reserve);
    let ask = Ask {
        name: &reserve.name,
        holder: &holder,
        devices: &reserve.devices,
        least: reserve.least.max(1) as usize,
        most: reserve.most as usize,
        want: match reserve.whole {
            true => Want::Whole,
            false => Want::Part {
                memory: reserve.memory,
                share: reserve.share,
            },
        },
        since,
    };
    let asker = asker(&known.who, hello);
    expire(server);
    if let Err(r) = settled(|| lock(&server.pool).stand(&asker, &ask)) {
        return refuse(conn, r.into());
    }
    let desk = Desk {
        server,
        known,
        name: &reserve.name,
        holder: &holder,
        until: Instant::now() + Duration::from_secs(reserve.wait).min(LONGEST) + MARGIN,
    };
    let first = Standing {
        since,
        ..Standing::default()
    };
    let at_once = if reserve.take { ask.least } else { usize::MAX };
    let moves = match desk.begin(at_once).and_then(|()| desk.serve(first)) {
        Ok(moves) => moves.then_some(since),
        Err(r) => refuse(conn, r),
    };
    let has = matches!(lock(&server.pool).state(&reserve.name), State::Has(_));
    let kept = has && lock(&server.kept).contains_key(&reserve.name);
    if !kept {
        lock(&server.kept).remove(&reserve.name);
        let ended = lock(&server.pool).end_lease(&reserve.name);
        ended.iter().for_each(|e| note_end(server, e));
    }
    moves
}

fn check(r: &Reserve) -> Result<(), Refusal> {
    let word = |c: char| c.is_ascii_alphanumeric();
    if r.most == 0 || r.least > r.most {
        let text = "a lease of no GPU makes no sense: ask for at least one";
        return Err(Refusal::new("lease", text));
    }
    if r.name.len() < LEAST_NAME || !r.name.chars().all(word) {
        let text = "the hello makes no sense: its lease has no name that nobody can guess";
        return Err(Refusal::new("hello", text));
    }
    Ok(())
}

/// Since when somebody waits, as all servers are to count it: what the first one said, if that can
/// be.
fn since(r: &Reserve) -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0, |t| t.as_millis() as u64);
    r.since.filter(|t| t.abs_diff(now) <= SKEW).unwrap_or(now)
}

/// Somebody who stands in line or has a lease.
struct Desk<'a> {
    server: &'a Arc<Server>,
    known: &'a Known,
    name: &'a str,
    holder: &'a str,
    until: Instant,
}

impl Desk<'_> {
    /// Whether nothing new begins here.
    fn is_closed(&self) -> bool {
        self.server.drains() || self.server.succession.yields()
    }

    /// Takes what is on offer if that is so many.
    fn begin(&self, least: usize) -> Result<(), Refusal> {
        let state = lock(&self.server.pool).state(self.name);
        match state {
            State::Waits(s) if s.offer.len() >= least && !self.is_closed() => {
                self.heed(&Word::Take(s.offer))
            }
            _ => Ok(()),
        }
    }

    /// Until the lease is over, or the connection is, or the line is another server's; whether it
    /// is.
    fn serve(&self, mut said: Standing) -> Result<bool, Refusal> {
        let conn = &self.known.conn;
        let mut first = true;
        // The communicators of its ranks, and when they were looked at.
        let (mut comms, mut seen) = (Vec::new(), None);
        loop {
            if let Some(why) = self.server.identities.over(&self.known.who) {
                return Err(Refusal::new("token", why));
            }
            let state = lock(&self.server.pool).state(self.name);
            let waits = matches!(state, State::Waits(_));
            if waits && self.server.drains() {
                let text = "the server is being shut down and takes nothing new";
                return Err(Refusal::new("draining", text));
            }
            if waits && self.server.succession.yields() {
                // Who has said something hears that it was heard, which only this one knows.
                return match said.answers {
                    0 => Ok(true),
                    _ => Err(replaced()),
                };
            }
            if waits && Instant::now() > self.until {
                return Err(Refusal::new("taken", "the time to wait is over"));
            }
            let now = match state {
                State::Waits(s) => Standing {
                    offer: s.offer,
                    place: s.place,
                    ahead: s.ahead,
                    holders: s.holders,
                    has: Vec::new(),
                    answers: said.answers,
                    since: said.since,
                    lost: String::new(),
                    losses: Some(Vec::new()),
                    comms: Vec::new(),
                    talk: Some(Vec::new()),
                },
                State::Has(has) => {
                    let (server, group) = (self.server, self.group());
                    let changes = Some(server.losses.changes());
                    if seen != changes {
                        (comms, seen) = (jobs::comms(server, &group), changes);
                    }
                    let losses = server.losses.last(&group);
                    let lost = losses.last().map(|(_, loss)| loss.text.clone());
                    Standing {
                        has,
                        answers: said.answers,
                        since: said.since,
                        lost: lost.unwrap_or_default(),
                        losses: Some(losses),
                        comms: comms.clone(),
                        talk: Some(server.talks.last(&group)),
                        ..Standing::default()
                    }
                }
                State::Over => {
                    let text = "the lease has ended: its time is over, or somebody released it";
                    return Err(Refusal::new("lease", text));
                }
            };
            if first || now != said {
                let mut w = Welcome::with(self.known.protocol, &now);
                w.features = vec![LEASES.into()];
                answer(conn, &w);
                first = false;
            }
            said = now;
            let pause = if waits { LOOK } else { LEASE_LOOK };
            match conn.wait(None, Some(pause)) {
                Ok(false) => {}
                Ok(true) => {
                    let Some(word) = self.word() else {
                        return Ok(false);
                    };
                    self.heed(&word?)?;
                    said.answers += 1;
                    // It is answered even if nothing has changed.
                    first = true;
                }
                Err(_) => return Ok(false),
            }
            if waits {
                expire(self.server);
            }
        }
    }

    /// What the client says; nothing at its end.
    fn word(&self) -> Option<Result<Word, Refusal>> {
        let conn = &self.known.conn;
        if conn.hung_up() {
            return None;
        }
        conn.recv_timeout(Some(ANSWER_TIME)).ok()?;
        let body = recv_hello(conn, Kind::Hello).ok()?;
        let word = busbar_control::read("the word", &body);
        Some(word.map_err(|e| Refusal::new("hello", e)))
    }

    fn heed(&self, word: &Word) -> Result<(), Refusal> {
        let server = self.server;
        let tenant = &self.known.who.tenant;
        match word {
            Word::Take(devices) => {
                let Some(_begins) = server.succession.begins() else {
                    return Err(replaced());
                };
                let take = || {
                    let mut pool = lock(&server.pool);
                    pool.arrives(tenant, server.started.elapsed())?;
                    pool.take(self.name, devices)
                };
                let state = take().map_err(Refusal::from)?;
                if let State::Has(devices) = state {
                    self.note_begin(&devices)?;
                }
            }
            Word::Back => {
                let shown = status::shown(self.name);
                lock(&server.pool).give_back(self.name);
                tracing::info!(lease = shown, "lease given back");
                let _ = server.audit.note("lease ends", json!({ "lease": shown }));
            }
            Word::Lost(text) => self.spread(Loss {
                text: text.clone(),
                ..Loss::default()
            }),
            Word::Loss(loss) => self.spread(loss.clone()),
            Word::Talk(talk) => {
                let mut talk = talk.clone();
                talk.tame();
                jobs::tell(server, &self.group(), talk);
            }
            Word::Keep(seconds) => {
                let lasts = Duration::from_secs(*seconds).min(LONGEST);
                let who = self.known.who.clone();
                lock(&server.kept).insert(self.name.into(), who);
                let until = server.started.elapsed() + lasts;
                if lock(&server.pool).keep(self.name, until) == State::Over {
                    lock(&server.kept).remove(self.name);
                }
            }
        }
        Ok(())
    }

    /// Ranks here hear of one at another server.
    fn spread(&self, mut loss: Loss) {
        loss.tame();
        jobs::hear(self.server, &self.group(), &loss);
    }

    /// What the sessions of the lease have in common.
    fn group(&self) -> Group {
        Group::named(&self.known.who.tenant, self.name)
    }

    fn note_begin(&self, devices: &[u32]) -> Result<(), Refusal> {
        let shown = status::shown(self.name);
        let who = &self.known.who;
        let note = json!({
            "lease": shown,
            "tenant": who.tenant,
            "token": who.name,
            "peer": self.known.conn.peer(),
            "holder": self.holder,
            "devices": devices,
        });
        let noted = self.server.audit.note("lease begins", note);
        noted.map_err(|why| Refusal::new("internal", why))?;
        tracing::info!(
            lease = shown,
            holder = self.holder,
            ?devices,
            "lease begins"
        );
        Ok(())
    }
}

/// What somebody hears who is in the middle of a conversation.
fn replaced() -> Refusal {
    let text = "the server is being replaced by another: ask again";
    Refusal::new("draining", text)
}

fn note_end(server: &Server, ended: &Ended) {
    lock(&server.kept).remove(&ended.name);
    server.losses.forget(&ended.name);
    server.talks.forget(&ended.name);
    if let Some(before) = &server.succession.predecessor {
        before.end_lease(&ended.name);
    }
    let lease = ended.name.clone();
    server.succession.tell_heir(&ToHeir::LeaseGone { lease });
    let shown = status::shown(&ended.name);
    tracing::info!(lease = shown, "lease ended");
    let _ = server.audit.note("lease ends", json!({ "lease": shown }));
}

/// Ends leases whose time is over.
pub(super) fn expire(server: &Server) {
    let ended = lock(&server.pool).expire(server.started.elapsed());
    ended.iter().for_each(|e| note_end(server, e));
}

/// Ends leases that are kept for somebody who is let in no more, or whose time is over.
pub(super) fn revoke(server: &Server) {
    let kept: Vec<_> = {
        let kept = lock(&server.kept);
        let over = kept
            .iter()
            .filter(|(_, who)| server.identities.over(who).is_some());
        over.map(|(name, _)| name.clone()).collect()
    };
    for name in kept {
        let ended = lock(&server.pool).end_lease(&name);
        lock(&server.kept).remove(&name);
        ended.iter().for_each(|e| note_end(server, e));
    }
    expire(server);
}

/// Ends leases because somebody says so, and says which.
pub(super) fn release(server: &Arc<Server>, known: &Known, refuse: impl Fn(&Stream, Refusal)) {
    let Known { conn, hello, .. } = known;
    let asker = asker(&known.who, hello);
    expire(server);
    let released = lock(&server.pool).release(&asker, &hello.release);
    match released {
        Err(r) => refuse(conn, r.into()),
        Ok(ended) => {
            let lease = |e: Ended| {
                note_end(server, &e);
                status::Lease {
                    lease: status::shown(&e.name).into(),
                    holder: e.holder,
                    devices: e.devices,
                    ..status::Lease::default()
                }
            };
            let all: Vec<_> = ended.into_iter().map(lease).collect();
            answer(conn, &Welcome::with(known.protocol, &all));
        }
    }
}
