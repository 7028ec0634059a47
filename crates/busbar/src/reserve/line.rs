//! Standing in line at several servers at once: the connections, and what goes over them. What is
//! said when, [`Gather`] decides.

use super::news::{Heard, News, Said, Teller};
use super::wanted::{Reserved, Wanted};
use crate::complaint::complain;
use anyhow::{Result, bail};
use busbar_channel::{recv_hello, send_hello};
use busbar_client::config::Config;
use busbar_client::hello;
use busbar_control::hello::{Hello, Intent, LEASES, Welcome};
use busbar_control::lease::{Reserve, Standing, Word};
use busbar_pool::gather::{Gather, Goal, Outcome};
use busbar_pool::queue::Want;
use busbar_transport::Connection;
use busbar_transport::tcp::Address;
use busbar_wire::frame::Kind;
use std::collections::{BTreeMap, VecDeque};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// When somebody who waits is told for whom, where nobody sits at a terminal.
const QUIET: Duration = Duration::from_secs(2);
/// How often is looked what time it is.
const LOOK: Duration = Duration::from_millis(100);
/// How long a server has for an answer.
const ANSWER: Duration = Duration::from_secs(20);

/// Devices of a server that will do: each with how much of it others have.
pub(super) struct Site {
    pub server: String,
    pub devices: Vec<(u32, u64)>,
}

/// How it ended.
pub(super) enum End {
    Reserved(Reserved),
    /// Not in time: so many were on offer; who had the others.
    Taken(usize, Vec<String>),
}

/// Says what has become of ranks elsewhere, or what they say.
pub fn pass_on(conn: &dyn Connection, word: &Word) {
    let _ = say(conn, word);
}

/// One try to get all that is wanted of some servers.
pub(super) struct Line<'a> {
    config: &'a Config,
    wanted: &'a Wanted,
    sites: &'a [Site],
    gather: Gather,
    conns: Vec<Option<Arc<dyn Connection>>>,
    heard: Receiver<Heard>,
    to: Sender<Heard>,
    /// Why servers will have nothing to do with it.
    gone: BTreeMap<usize, String>,
    begun: Instant,
    told: String,
}

impl Drop for Line<'_> {
    /// What is not reserved is nobody's: the servers notice it by the end of the connections.
    fn drop(&mut self) {
        self.conns.iter().flatten().for_each(|c| c.shutdown());
    }
}

impl<'a> Line<'a> {
    pub(super) fn new(config: &'a Config, wanted: &'a Wanted, sites: &'a [Site]) -> Self {
        let goal = Goal {
            least: wanted.least,
            most: wanted.most,
            how: wanted.how,
        };
        let (to, heard) = channel();
        let each = sites.iter().map(|s| s.devices.clone());
        Self {
            config,
            wanted,
            sites,
            gather: Gather::new(goal, each.collect()),
            conns: vec![None; sites.len()],
            heard,
            to,
            gone: BTreeMap::new(),
            begun: Instant::now(),
            told: String::new(),
        }
    }

    /// Stands in line at all servers for so long, or until it is known what they offer at once.
    pub(super) fn wait(mut self, most: Option<Duration>) -> Result<End> {
        let long = most.unwrap_or(ANSWER);
        loop {
            while let Some((i, since)) = self.gather.next_stand() {
                self.stand(i, since)?;
            }
            match self.heard.recv_timeout(LOOK) {
                Ok((i, said)) => self.hear(i, said)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("nobody is left who could answer"),
            }
            self.talk()?;
            match self.gather.outcome() {
                Some(Outcome::All(own)) => return self.finish(&own).map(End::Reserved),
                Some(Outcome::TooFew(_)) => {
                    let why: Vec<_> = self.gone.values().cloned().collect();
                    bail!("{}", why.join("; "));
                }
                None => {}
            }
            let all_said = self.gather.said().count() + self.gone.len() == self.sites.len();
            let at_once = most.is_none() && all_said && self.gather.waits();
            // A server that takes its time may have what is wanted.
            let most_of_all = if all_said { long } else { long.max(ANSWER) };
            if at_once || self.begun.elapsed() >= most_of_all {
                let mut who: Vec<_> = self.gather.said().flat_map(|(_, s)| &s.holders).collect();
                who.extend(self.gather.said().flat_map(|(_, s)| &s.ahead));
                who.sort();
                who.dedup();
                let who = who.into_iter().cloned().collect();
                return Ok(End::Taken(self.gather.offered(), who));
            }
            self.tell(most);
        }
    }

    /// Stands in line at a server.
    fn stand(&self, i: usize, since: Option<u64>) -> Result<()> {
        let wanted = self.wanted;
        let site = &self.sites[i];
        let (memory, share) = wanted.want.part();
        let alone = self.sites.len() == 1;
        let reserve = Reserve {
            name: wanted.name.clone(),
            devices: site.devices.iter().map(|(n, _)| *n).collect(),
            least: if alone { wanted.least as u32 } else { 1 },
            most: wanted.most.min(site.devices.len()) as u32,
            whole: wanted.want == Want::Whole,
            memory,
            share,
            since,
            wait: wanted.wait.unwrap_or_default().as_secs(),
            take: alone,
        };
        let mut h = Hello::new(Intent::Lease);
        h.reserve = Some(reserve);
        let mut h = hello::introduce(self.config, &site.server, h).map_err(anyhow::Error::msg)?;
        // Who waits for the devices is to read what holds them.
        h.client.program.clone_from(&wanted.program);
        let address = Address::new(&site.server);
        let route = self.config.route(address).map_err(anyhow::Error::msg)?;
        let (server, to) = (site.server.clone(), self.to.clone());
        let timeout = self.config.connect_timeout;
        let read = move || {
            let conn = match hello::connect(&route, &h, timeout) {
                Ok((conn, w)) => match understood(&server, &w) {
                    Ok(s) => {
                        let said = Said::Stands(conn.clone(), Box::new(s));
                        if to.send((i, said)).is_err() {
                            return conn.shutdown();
                        }
                        conn
                    }
                    Err(e) => return drop(to.send((i, Said::Gone(e)))),
                },
                Err(e) => return drop(to.send((i, Said::Gone(e.at(&server))))),
            };
            loop {
                let said = match listen(&server, &*conn) {
                    Ok(s) => Said::Standing(Box::new(s)),
                    Err(e) => return drop(to.send((i, Said::Gone(e)))),
                };
                if to.send((i, said)).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("line".into()).spawn(read)?;
        Ok(())
    }

    /// Takes in what a server says.
    fn hear(&mut self, i: usize, said: Said) -> Result<()> {
        let standing = match said {
            Said::Gone(why) => {
                self.gone.entry(i).or_insert(why);
                self.gather.lose(i);
                return Ok(());
            }
            Said::Stands(conn, s) => {
                self.conns[i] = Some(conn);
                s
            }
            Said::Standing(s) => s,
        };
        let since = standing.since;
        self.gather.hear(i, *standing);
        if self.wanted.wait.is_some() && self.gather.since().is_some_and(|s| s != since) {
            bail!(
                "the clock of {} differs by more than a minute from others': without the right \
                 time nobody knows who came first",
                self.sites[i].server
            );
        }
        Ok(())
    }

    /// Says what is to be said.
    fn talk(&mut self) -> Result<()> {
        while let Some((i, word)) = self.gather.next_word() {
            let conn = self.conns[i].as_ref();
            if conn.is_none_or(|c| say(&**c, &word).is_err()) {
                let why = format!("{} went away", self.sites[i].server);
                self.gone.entry(i).or_insert(why);
                self.gather.lose(i);
            }
        }
        Ok(())
    }

    /// All is there: keeps it if that is wanted, and leaves where nothing was taken.
    fn finish(&mut self, own: &[(usize, Vec<u32>)]) -> Result<Reserved> {
        let mut conns = Vec::new();
        let mut at = Vec::new();
        for (i, devices) in own {
            let server = self.sites[*i].server.clone();
            if let (Some(lasts), Some(conn)) = (self.wanted.keep, &self.conns[*i]) {
                let before = self.answers(*i);
                if say(&**conn, &Word::Keep(lasts.as_secs())).is_err() {
                    bail!("{server} went away as the lease began");
                }
                let until = Instant::now() + ANSWER;
                while self.answers(*i) <= before {
                    let left = until.saturating_duration_since(Instant::now());
                    match self.heard.recv_timeout(left) {
                        Ok((n, Said::Gone(why))) if n == *i => bail!("{why}"),
                        Ok((n, said)) => self.hear(n, said)?,
                        Err(_) => bail!("{server} does not answer as the lease begins"),
                    }
                }
            }
            at.push((server, devices.clone()));
        }
        for (i, conn) in self.conns.iter_mut().enumerate() {
            let Some(conn) = conn.take() else { continue };
            match own.iter().any(|(n, _)| *n == i) {
                true => conns.push(conn),
                false => conn.shutdown(),
            }
        }
        let of = own.iter().map(|(i, _)| {
            let said = self.gather.said().find(|(n, _)| n == i);
            Teller::new(*i, said.map(|(_, s)| s))
        });
        let of = of.collect();
        let heard = std::mem::replace(&mut self.heard, channel().1);
        // Without this there is an end of what can be heard.
        self.to = channel().0;
        Ok(Reserved {
            name: self.wanted.name.clone(),
            at,
            conns,
            news: News {
                heard,
                events: VecDeque::new(),
                of,
            },
        })
    }

    fn answers(&self, i: usize) -> u64 {
        let mut all = self.gather.said();
        all.find(|(n, _)| *n == i).map_or(0, |(_, s)| s.answers)
    }

    /// Says for whom somebody waits, when that has changed.
    fn tell(&mut self, most: Option<Duration>) {
        let soon = std::io::stderr().is_terminal() || self.begun.elapsed() >= QUIET;
        let waits = self.gather.waits() && self.wanted.wait.is_some();
        if !waits || most.is_none() || !soon {
            return;
        }
        let each = self
            .gather
            .said()
            .filter(|(_, s)| s.place > 0)
            .map(|(i, s)| {
                let mut text = format!("place {} at {}", s.place, self.sites[i].server);
                if !s.ahead.is_empty() {
                    text += &format!(" behind {}", s.ahead.join(", "));
                }
                if !s.holders.is_empty() {
                    text += &format!(", held by {}", s.holders.join(", "));
                }
                text
            });
        let each: Vec<_> = each.collect();
        let text = format!(
            "waiting for {}, {} can be had now: {}",
            self.wanted.count(),
            self.gather.offered(),
            each.join("; ")
        );
        if !each.is_empty() && text != self.told {
            complain(&text);
            self.told = text;
        }
    }
}

/// What a welcome says, if the server knows leases.
fn understood(server: &str, w: &Welcome) -> Result<Standing, String> {
    if !w.features.iter().any(|f| f == LEASES) {
        return Err(format!(
            "the server {server} (Busbar {}) does not reserve devices as this client asks: install \
             the same release on both",
            w.version
        ));
    }
    w.read(server)
}

fn listen(server: &str, conn: &dyn Connection) -> Result<Standing, String> {
    let body = recv_hello(conn, Kind::Welcome).map_err(|_| format!("{server} went away"))?;
    let what = format!("the answer of the server {server}");
    let w: Welcome = busbar_control::read(&what, &body)?;
    match w.refusal {
        Some(r) => Err(r.message),
        None => w.read(server),
    }
}

fn say(conn: &dyn Connection, word: &Word) -> std::io::Result<()> {
    send_hello(
        conn,
        Kind::Hello,
        &serde_json::to_vec(word).unwrap_or_default(),
    )
}
