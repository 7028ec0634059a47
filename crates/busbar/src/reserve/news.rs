//! What servers say to somebody who stands in line or has a lease.

use busbar_control::lease::{Standing, Word};
use busbar_control::talk::{Loss, Talk};
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
    Lost(Loss),
    /// One says something.
    Says(Talk),
    /// The server is, and why; the communicators that ranks there had.
    Gone(String, Vec<u64>),
}

/// What the servers that have a lease say of it later.
pub struct News {
    pub(super) heard: Receiver<Heard>,
    pub(super) events: VecDeque<(usize, Event)>,
    /// Those servers.
    pub(super) of: Vec<Teller>,
}

/// A server that has the lease.
pub(super) struct Teller {
    /// Its number in the line.
    own: usize,
    /// Whether it can be told what ranks say.
    talk: bool,
    /// Whether it can be told what a lost rank was a member of.
    losses: bool,
    /// How many words of it have been heard.
    words: u64,
    /// The last loss that was heard of: its number, or what it was called where it has none.
    lost: (u64, String),
    /// The communicators that ranks there had last.
    comms: Vec<u64>,
}

impl Teller {
    pub(super) fn new(own: usize, said: Option<&Standing>) -> Self {
        Self {
            own,
            talk: said.is_some_and(|s| s.talk.is_some()),
            losses: said.is_some_and(|s| s.losses.is_some()),
            words: 0,
            lost: (0, String::new()),
            comms: Vec::new(),
        }
    }

    /// What is new in what it says.
    fn hear(&mut self, said: Standing) -> Vec<Event> {
        let mut events = Vec::new();
        for (n, talk) in said.talk.into_iter().flatten() {
            if n > self.words {
                self.words = n;
                events.push(Event::Says(talk));
            }
        }
        self.comms = said.comms;
        let (number, text) = &mut self.lost;
        match said.losses {
            Some(losses) => {
                for (n, loss) in losses {
                    if n > *number {
                        *number = n;
                        events.push(Event::Lost(loss));
                    }
                }
            }
            None if said.lost != *text => {
                text.clone_from(&said.lost);
                let text = said.lost;
                events.push(Event::Lost(Loss {
                    text,
                    ..Loss::default()
                }));
            }
            None => {}
        }
        events
    }

    /// What it can be told of this.
    fn takes(&self, word: &Word) -> Option<Word> {
        match word {
            Word::Talk(_) if !self.talk => None,
            Word::Loss(loss) if !self.losses => Some(Word::Lost(loss.text.clone())),
            word => Some(word.clone()),
        }
    }
}

impl News {
    /// The next, and of which of the servers that have the lease; nothing once all are gone.
    pub fn next(&mut self) -> Option<(usize, Event)> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let (i, said) = self.heard.recv().ok()?;
            let Some(place) = self.of.iter().position(|t| t.own == i) else {
                continue;
            };
            let teller = &mut self.of[place];
            match said {
                Said::Gone(why) => {
                    let comms = std::mem::take(&mut teller.comms);
                    return Some((place, Event::Gone(why, comms)));
                }
                Said::Stands(_, s) | Said::Standing(s) => {
                    let events = teller.hear(*s).into_iter();
                    self.events.extend(events.map(|e| (place, e)));
                }
            }
        }
    }

    /// What one of the servers that have the lease can be told of this.
    pub fn takes(&self, place: usize, word: &Word) -> Option<Word> {
        self.of.get(place)?.takes(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(t: &mut Teller, said: &Standing) -> Vec<String> {
        let text = |e| match e {
            Event::Lost(loss) => loss.text,
            _ => panic!("nothing else was said"),
        };
        t.hear(said.clone()).into_iter().map(text).collect()
    }

    #[test]
    fn each_loss_is_heard_once_and_one_like_another_is_heard_too() {
        let loss = |text: &str| Loss {
            text: text.into(),
            ..Loss::default()
        };
        let says = |losses| Standing {
            losses: Some(losses),
            lost: "for others".into(),
            ..Standing::default()
        };
        let mut first = says(vec![(4, loss("a"))]);
        let mut teller = Teller::new(0, Some(&first));
        assert_eq!(told(&mut teller, &first), ["a"]);
        first.answers = 1;
        assert_eq!(told(&mut teller, &first), [""; 0], "it answers a word");
        let more = says(vec![(4, loss("a")), (7, loss("a")), (9, loss("b"))]);
        assert_eq!(told(&mut teller, &more), ["a", "b"]);
        let word = Word::Loss(loss("c"));
        assert_eq!(teller.takes(&word), Some(word));
    }

    #[test]
    fn a_server_that_numbers_no_losses_is_heard_and_told_in_words() {
        let mut said = Standing::default();
        let mut teller = Teller::new(0, Some(&said));
        assert_eq!(told(&mut teller, &said), [""; 0]);
        said.lost = "a".into();
        assert_eq!(told(&mut teller, &said), ["a"]);
        assert_eq!(told(&mut teller, &said), [""; 0]);
        let loss = Loss {
            text: "b".into(),
            comms: vec![1],
            follows: false,
        };
        assert_eq!(
            teller.takes(&Word::Loss(loss)),
            Some(Word::Lost("b".into()))
        );
        let late = Talk::Late { text: "c".into() };
        assert_eq!(teller.takes(&Word::Talk(late)), None);
    }
}
