//! Opening a session's side connections, for copies that one stream is too slow for.

use crate::hello;
use crate::prelude::*;
use busbar_channel::{Channel, most_sides};
use busbar_control::hello::{Hello, Intent, SIDE_CONNECTION, SIDE_CONNECTIONS, Welcome};
use busbar_transport::Dialer;
use busbar_wire::frame::SIDES;

/// How long a server may take to welcome one, and to use it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Knows how to open one.
#[derive(Clone)]
pub struct Opener {
    dialer: Arc<dyn Dialer>,
    hello: Hello,
    /// How many the server takes.
    most: usize,
}

impl Opener {
    /// For a session whose server takes one.
    pub fn new(dialer: Arc<dyn Dialer>, hello: &Hello, welcome: &Welcome) -> Option<Self> {
        let able = |what| welcome.features.iter().any(|f| f == what);
        able(SIDE_CONNECTION).then(|| Self {
            dialer,
            hello: Hello {
                intent: Intent::Side,
                session: welcome.session.clone(),
                secret: welcome.secret.clone(),
                ..hello.clone()
            },
            most: if able(SIDE_CONNECTIONS) {
                usize::from(SIDES)
            } else {
                1
            },
        })
    }

    /// Opens one whenever `channel` finds its network fast, and `at_once` of them now.
    pub fn serve(self, channel: &Channel, at_once: usize) {
        let at_once = at_once.min(self.most);
        if at_once > 0 {
            self.open(channel);
        }
        if at_once > 1 {
            let (me, channel) = (self.clone(), channel.clone());
            start(move || me.open_until(&channel, at_once));
        }
        let most = most_sides().min(self.most);
        channel.on_fast(most, move |channel| {
            // On the receiving thread, which must not wait for a server.
            let (me, channel) = (self.clone(), channel.clone());
            start(move || {
                me.open(&channel);
            });
        });
    }

    /// Opens one after the other, each when the one before it is in use.
    fn open_until(&self, channel: &Channel, count: usize) {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            match channel.side_count() {
                Some(n) if n >= count => return,
                Some(_) if !self.open(channel) => return,
                _ => {}
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether there is one more. Without it everything works, only slower.
    fn open(&self, channel: &Channel) -> bool {
        let main = channel.connection();
        let done = hello::connect(&*self.dialer, &self.hello, PATIENCE)
            .map_err(|e| e.to_string())
            .and_then(|(conn, welcome)| {
                let attached = channel.attach_side(conn, welcome.side, main);
                attached.map_err(|e| e.to_string())
            });
        match &done {
            Ok(()) => crate::log!(Info, "long copies use one more connection"),
            Err(e) => crate::log!(Info, "no more connections: {e}"),
        }
        done.is_ok()
    }
}

fn start(f: impl FnOnce() + Send + 'static) {
    let _ = crate::threads::start("busbar-side", f);
}
