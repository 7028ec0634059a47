//! The other ranks of a session's job: the server says when one is gone, and is told whether this
//! session has any.

use busbar_control::attach::Report;
use busbar_control::talk::{Loss, Talk};
use std::sync::{Arc, OnceLock};

/// What is heard of them.
pub enum Heard {
    /// One is gone.
    Lost(Loss),
    /// One says this.
    Says(Talk),
}

type Hear = Box<dyn Fn(&Heard) + Send + Sync>;
type Say = Box<dyn Fn(Report) + Send + Sync>;

#[derive(Default)]
struct Ways {
    hear: OnceLock<Hear>,
    say: OnceLock<Say>,
}

/// What is known of them. Cheap to clone.
#[derive(Clone, Default)]
pub struct Peers(Arc<Ways>);

impl Peers {
    /// From now on this hears of them. It must not wait.
    pub fn on_word(&self, hear: impl Fn(&Heard) + Send + Sync + 'static) {
        let _ = self.0.hear.set(Box::new(hear));
    }

    /// From now on this tells the server.
    pub(crate) fn tell(&self, say: impl Fn(Report) + Send + Sync + 'static) {
        let _ = self.0.say.set(Box::new(say));
    }

    /// The server says this.
    pub(crate) fn heard(&self, what: &Heard) {
        if let Some(hear) = self.0.hear.get() {
            hear(what);
        }
    }

    /// The session is about to end, and why.
    pub(crate) fn ends(&self, why: &str) {
        self.say(Report::Ended { why: why.into() });
    }

    /// Tells the server.
    pub fn say(&self, report: Report) {
        if let Some(say) = self.0.say.get() {
            say(report);
        }
    }
}
