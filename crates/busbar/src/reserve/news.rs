//! What servers say to somebody who stands in line or has a lease.

use busbar_control::lease::Standing;
use busbar_transport::Connection;
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
    /// The server is.
    Gone(String),
}

/// What the servers that have a lease say of it later.
pub struct News {
    pub(super) heard: Receiver<Heard>,
    /// Their numbers in the line.
    pub(super) own: Vec<usize>,
}

impl News {
    /// The next, and of which of the servers that have the lease; nothing once all are gone.
    pub fn next(&self) -> Option<(usize, Event)> {
        loop {
            let (i, said) = self.heard.recv().ok()?;
            let Some(place) = self.own.iter().position(|n| *n == i) else {
                continue;
            };
            match said {
                Said::Gone(why) => return Some((place, Event::Gone(why))),
                Said::Stands(_, s) | Said::Standing(s) if s.lost.is_empty() => {}
                Said::Stands(_, s) | Said::Standing(s) => {
                    return Some((place, Event::Lost(s.lost)));
                }
            }
        }
    }
}
