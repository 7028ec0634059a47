//! Links between the servers of two sessions: one of the two dials the other, with a ticket that
//! the session there has been given.

use crate::hello::{self, Failure};
use crate::prelude::*;
use busbar_control::hello::{Hello, Intent, Link, Ticket, Welcome};
use busbar_transport::Dialer;

/// How long a server may take to be reached.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Asks a session's server for its part in a link.
pub struct Linker {
    dialer: Arc<dyn Dialer>,
    hello: Hello,
    encrypted: bool,
}

impl Linker {
    /// For a session that was opened with this hello.
    pub fn new(dialer: Arc<dyn Dialer>, hello: &Hello, welcome: &Welcome, encrypted: bool) -> Self {
        let hello = Hello {
            session: welcome.session.clone(),
            secret: welcome.secret.clone(),
            ..hello.clone()
        };
        Self {
            dialer,
            hello,
            encrypted,
        }
    }

    fn ask(&self, intent: Intent, link: Link) -> Result<Welcome, Failure> {
        let hello = Hello {
            intent,
            link,
            ..self.hello.clone()
        };
        hello::connect(&*self.dialer, &hello, TIMEOUT).map(|(_, welcome)| welcome)
    }

    /// Has this one's server dial another's: from then on both know the link by its number.
    pub fn dial(&self, other: &Self, number: u32) -> Result<(), String> {
        let (us, them) = (self.dialer.peer(), other.dialer.peer());
        let wanted = Link {
            number,
            ..Link::default()
        };
        let said = |e: Failure| e.to_string();
        let welcome = other.ask(Intent::Ticket, wanted.clone()).map_err(said)?;
        let Ticket { ticket, key } = welcome.read(&them)?;
        if key.is_empty() && (other.encrypted || self.encrypted) {
            return Err(format!("{us} and {them} do not both encrypt"));
        }
        let link = Link {
            address: them,
            key,
            session: other.hello.session.clone(),
            ticket,
            ..wanted
        };
        self.ask(Intent::Dial, link).map(drop).map_err(said)
    }

    /// The server, for people to read.
    pub fn server(&self) -> String {
        self.dialer.peer()
    }
}
