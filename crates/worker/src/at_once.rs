//! Calls that do not wait in the queue: they end what may hold the queue up.

use std::sync::{Arc, OnceLock};

/// What does such a call: it is told of the call's number and the message. It must not wait.
type Hand = Box<dyn Fn(u32, &[u8]) -> Result<(), String> + Send + Sync>;

/// Who does such calls. Cheap to clone.
#[derive(Clone, Default)]
pub struct AtOnce(Arc<OnceLock<Hand>>);

impl AtOnce {
    /// From now on this does them.
    pub fn serve(&self, hand: impl Fn(u32, &[u8]) -> Result<(), String> + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(hand));
    }

    /// Has one done. An error when nobody does such calls, or when it makes no sense.
    pub(crate) fn call(&self, call: u32, message: &[u8]) -> Result<(), String> {
        match self.0.get() {
            Some(hand) => hand(call, message),
            None => Err("the client broke the protocol: a call of an API that is not there".into()),
        }
    }
}
