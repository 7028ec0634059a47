//! Opening a session's second connection, for copies that one stream is too slow for.

use crate::hello;
use crate::prelude::*;
use busbar_channel::Channel;
use busbar_control::hello::{Hello, Intent, SIDE_CONNECTION, Welcome};
use busbar_transport::Dialer;

/// Knows how to open one.
#[derive(Clone)]
pub struct Opener {
    dialer: Arc<dyn Dialer>,
    hello: Hello,
}

impl Opener {
    /// For a session whose server takes one.
    pub fn new(dialer: Arc<dyn Dialer>, hello: &Hello, welcome: &Welcome) -> Option<Self> {
        let able = welcome.features.iter().any(|f| f == SIDE_CONNECTION);
        able.then(|| Self {
            dialer,
            hello: Hello {
                intent: Intent::Side,
                session: welcome.session.clone(),
                secret: welcome.secret.clone(),
                ..hello.clone()
            },
        })
    }

    /// Opens one whenever `channel` finds its network fast, and now if `at_once`.
    pub fn serve(self, channel: &Channel, at_once: bool) {
        if at_once {
            self.open(channel);
        }
        channel.on_fast(move |channel| {
            // On the receiving thread, which must not wait for a server.
            let (me, channel) = (self.clone(), channel.clone());
            let _ = crate::threads::start("busbar-side", move || me.open(&channel));
        });
    }

    /// Without it everything works, only slower.
    fn open(&self, channel: &Channel) {
        let main = channel.connection();
        let done = hello::connect(&*self.dialer, &self.hello, Duration::from_secs(2))
            .map_err(|e| e.to_string())
            .and_then(|(conn, welcome)| {
                let attached = channel.attach_side(conn, welcome.side, main);
                attached.map_err(|e| e.to_string())
            });
        match done {
            Ok(()) => crate::log!(Info, "long copies use a second connection"),
            Err(e) => crate::log!(Info, "no second connection: {e}"),
        }
    }
}
