//! Servers and clients on virtual time: the pools, the clients that gather of them, and messages
//! between them that take as long as a generator says.

use busbar_control::device::Device;
use busbar_control::lease::{Standing, Word};
use busbar_pool::gather::{Gather, Goal, Outcome};
use busbar_pool::queue::Want;
use busbar_pool::{Ask, Asker, Pool, State};
use std::collections::BTreeMap;

/// Numbers that look random, the same for a seed.
pub struct Rng(pub u64);

impl Rng {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// A pool of some devices.
pub fn pool(devices: u32, memory: u64) -> Pool {
    let device = |ordinal| Device {
        api: "cuda".into(),
        ordinal,
        memory,
        ..Device::default()
    };
    Pool::new((0..devices).map(device).collect(), None, 1 << 20).expect("all are there")
}

/// How a server answers: what it would say over a connection.
pub fn standing(pool: &Pool, name: &str, answers: u64) -> Option<Standing> {
    let said = match pool.state(name) {
        State::Waits(s) => Standing {
            offer: s.offer,
            place: s.place,
            ahead: s.ahead,
            holders: s.holders,
            ..Standing::default()
        },
        State::Has(has) => Standing {
            has,
            ..Standing::default()
        },
        State::Over => return None,
    };
    Some(Standing { answers, ..said })
}

/// What a client asks for.
#[derive(Clone, Copy)]
pub struct Wish {
    pub goal: Goal,
    pub want: Want,
    pub priority: i32,
}

/// Stands in line at a server; whether it could.
pub fn stand(pool: &mut Pool, name: &str, wish: &Wish, devices: &[u32], since: u64) -> bool {
    let asker = Asker {
        priority: wish.priority,
        ..Asker::default()
    };
    let ask = Ask {
        name,
        holder: name,
        devices,
        least: 1,
        most: wish.goal.most,
        want: wish.want,
        since,
    };
    pool.stand(&asker, &ask).is_ok()
}

/// What a server makes of a word.
pub fn say(pool: &mut Pool, name: &str, word: &Word) {
    match word {
        Word::Take(devices) => drop(pool.take(name, devices)),
        Word::Back => drop(pool.give_back(name)),
        Word::Keep(_) | Word::Lost(_) | Word::Loss(_) | Word::Talk(_) => {}
    }
}

/// A client, with what is on its way between it and the servers.
pub struct Client {
    pub name: String,
    pub wish: Wish,
    pub gather: Gather,
    /// Its servers, by number, in order.
    pub servers: Vec<usize>,
    /// How many words each has answered, and what it said last.
    said: Vec<(u64, Option<Standing>)>,
    /// Since when it waits, as each has it.
    since: Vec<u64>,
    pub done: Option<u64>,
}

/// What happens at some time.
pub enum Event {
    /// Somebody comes.
    Comes(usize),
    /// Somebody gets to a server, by number among its own, with the time since which it waits, if
    /// another server has said so.
    Stands(usize, usize, Option<u64>),
    /// A word gets to a server.
    Word(usize, usize, Word),
    /// A server's word gets to somebody.
    Said(usize, usize, Standing),
    /// Somebody's program ends.
    Ends(usize),
}

/// The whole.
pub struct World {
    pub pools: Vec<Pool>,
    pub clients: Vec<Client>,
    events: BTreeMap<(u64, u64), Event>,
    number: u64,
    pub now: u64,
    pub rng: Rng,
    /// The longest that a message takes.
    pub delay: u64,
    /// Servers that are gone, though clients do not know it yet.
    pub down: Vec<usize>,
}

impl World {
    pub fn new(pools: Vec<Pool>, seed: u64, delay: u64) -> Self {
        Self {
            pools,
            clients: Vec::new(),
            events: BTreeMap::new(),
            number: 0,
            now: 0,
            rng: Rng(seed),
            delay,
            down: Vec::new(),
        }
    }

    pub fn at(&mut self, time: u64, event: Event) {
        self.number += 1;
        self.events.insert((time, self.number), event);
    }

    /// A client that comes at a time and wants something of some servers, in their order.
    pub fn add(&mut self, time: u64, wish: Wish, servers: Vec<usize>, devices: u32) {
        let each: Vec<_> = servers
            .iter()
            .map(|_| (0..devices).map(|d| (d, 0)).collect())
            .collect();
        let n = self.clients.len();
        self.clients.push(Client {
            name: format!("{n:06}"),
            wish,
            gather: Gather::new(wish.goal, each),
            said: vec![(0, None); servers.len()],
            since: vec![0; servers.len()],
            servers,
            done: None,
        });
        self.at(time, Event::Comes(n));
    }

    /// When a message sent now to somebody gets there: those of one connection stay in order.
    fn arrival(&mut self) -> u64 {
        let delay = self.delay;
        self.now + 1 + self.rng.below(delay)
    }

    /// Goes on to the next event; whether there was one.
    pub fn step(&mut self) -> bool {
        let Some(((now, _), event)) = self.events.pop_first() else {
            return false;
        };
        self.now = now;
        match event {
            Event::Comes(c) => self.speak(c),
            Event::Stands(c, i, since) => {
                let client = &mut self.clients[c];
                let server = client.servers[i];
                if self.down.contains(&server) {
                    client.gather.lose(i);
                    self.speak(c);
                    return true;
                }
                let name = client.name.clone();
                let since = since.unwrap_or(now);
                client.since[i] = since;
                assert!(stand(
                    &mut self.pools[server],
                    &name,
                    &client.wish,
                    &[],
                    since
                ));
                self.tell_all(server);
            }
            Event::Word(c, i, word) => {
                let client = &mut self.clients[c];
                client.said[i].0 += 1;
                let (server, name) = (client.servers[i], client.name.clone());
                say(&mut self.pools[server], &name, &word);
                self.tell_all(server);
            }
            Event::Said(c, i, said) => {
                self.clients[c].gather.hear(i, said);
                self.speak(c);
                let client = &self.clients[c];
                if client.done.is_none()
                    && let Some(Outcome::All(_)) = client.gather.outcome()
                {
                    self.clients[c].done = Some(now);
                    let at = now + 50 + self.rng.below(200);
                    self.at(at, Event::Ends(c));
                    // Nothing is left to wait for where nothing was taken.
                    for i in 0..self.clients[c].servers.len() {
                        let client = &self.clients[c];
                        let (server, name) = (client.servers[i], client.name.clone());
                        self.pools[server].leave(&name);
                        self.tell_all(server);
                    }
                }
            }
            Event::Ends(c) => {
                for i in 0..self.clients[c].servers.len() {
                    let client = &self.clients[c];
                    let (server, name) = (client.servers[i], client.name.clone());
                    self.pools[server].end_lease(&name);
                    self.tell_all(server);
                }
            }
        }
        true
    }

    /// Sends what a client has to say.
    fn speak(&mut self, c: usize) {
        while let Some((i, since)) = self.clients[c].gather.next_stand() {
            let at = self.arrival();
            self.at(at, Event::Stands(c, i, since));
        }
        while let Some((i, word)) = self.clients[c].gather.next_word() {
            let at = self.arrival();
            self.at(at, Event::Word(c, i, word));
        }
    }

    /// Tells everybody at a server for whom something is new.
    fn tell_all(&mut self, server: usize) {
        for c in 0..self.clients.len() {
            if self.clients[c].done.is_some() {
                continue;
            }
            let mut own = self.clients[c].servers.iter();
            let Some(i) = own.position(|s| *s == server) else {
                continue;
            };
            let client = &mut self.clients[c];
            let (answers, last) = &mut client.said[i];
            let now = standing(&self.pools[server], &client.name, *answers);
            let since = client.since[i];
            let now = now.map(|s| Standing { since, ..s });
            if now.is_none() || *last == now {
                continue;
            }
            last.clone_from(&now);
            if let Some(said) = now {
                // In order: a connection has one.
                let at = self.now + self.delay + 1;
                self.at(at, Event::Said(c, i, said));
            }
        }
    }
}
