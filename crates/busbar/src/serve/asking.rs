//! How the pool is asked.

use super::identity::Who;
use busbar_control::hello::{Hello, PATIENCE};
use busbar_control::lease::SETTLE_TIME;
use busbar_pool::{Asker, Refused};
use std::time::{Duration, Instant};

/// What the pool says once programs that have just ended hold nothing any more: who starts one
/// after the other must not find the first one's devices taken.
pub(super) fn settled<T>(ask: impl Fn() -> Result<T, Refused>) -> Result<T, Refused> {
    let deadline = Instant::now() + SETTLE_TIME;
    loop {
        match ask() {
            Err(r) if r.may_pass() && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            said => return said,
        }
    }
}

/// Somebody, as the pool asks.
pub(super) fn asker<'a>(who: &'a Who, hello: &'a Hello) -> Asker<'a> {
    Asker {
        tenant: &who.tenant,
        lease: &hello.lease,
        admin: who.admin,
        memory: Some(hello.memory).filter(|n| *n > 0),
        share: Some(hello.share).filter(|n| *n > 0),
        priority: hello.priority,
        parts: hello.devices as usize,
        served: false,
    }
}

/// Whether the client takes pings ahead of its welcome.
pub(super) fn is_patient(hello: &Hello) -> bool {
    hello.features.iter().any(|f| f == PATIENCE)
}
