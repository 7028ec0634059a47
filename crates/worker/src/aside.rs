//! Something short on a thread of its own, since it may have to wait.

use busbar_channel::alone;
use std::io;

/// Does something on a thread with this name; at once where nothing has threads.
pub fn run(name: &str, f: impl FnOnce() + Send + 'static) -> io::Result<()> {
    if alone::is_set() {
        f();
        return Ok(());
    }
    let thread = std::thread::Builder::new().name(name.into());
    thread.spawn(f).map(drop)
}
