//! What servers say to somebody who stands in line or has a lease.

use busbar_control::lease::Standing;
use busbar_control::talk::Talk;
use busbar_transport::Connection;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// What a server says.
pub(super) enum Said {
    Stands(Arc<dyn Connection>, Box<Standing>),
    Standing(Box<Standing>),
    Gone(String),
}

pub(super) type Heard = (usize, Said);

/// What becomes of a lease at one of its servers.
pub enum Event {
    /// A rank of its job is gone there.
    Lost(String),
    /// One says something.
    Says(Talk),
    /// The server is.
    Gone(String),
}

/// What the servers that have a lease say of it later.
pub struct News {
    pub(super) heard: Receiver<Heard>,
    /// Their numbers in the line.
    pub(super) own: Vec<usize>,
    /// Which of those that have the lease can be told what ranks say.
    pub talk: Vec<bool>,
    pub(super) events: VecDeque<(usize, Event)>,
    /// How many words of each have been heard.
    pub(super) words: Vec<u64>,
}

impl News {
    /// The next, and of which of the servers that have the lease; nothing once all are gone.
    pub fn next(&mut self) -> Option<(usize, Event)> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let (i, said) = self.heard.recv().ok()?;
            let Some(place) = self.own.iter().position(|n| *n == i) else {
                continue;
            };
            let standing = match said {
                Said::Gone(why) => return Some((place, Event::Gone(why))),
                Said::Stands(_, s) | Said::Standing(s) => s,
            };
            let heard = &mut self.words[place];
            for (n, talk) in standing.talk.into_iter().flatten() {
                if n > *heard {
                    *heard = n;
                    self.events.push_back((place, Event::Says(talk)));
                }
            }
            if !standing.lost.is_empty() {
                self.events.push_back((place, Event::Lost(standing.lost)));
            }
        }
    }
}
