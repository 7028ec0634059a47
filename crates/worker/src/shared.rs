//! Memory that a client on this very host hands over, to be mapped by its session's API.
//!
//! A claim to be on this host is worth nothing: what counts is that the memory arrives, over a
//! socket that only this network namespace has, with the session's secret. It waits here under the
//! number that its owner gave it, until a record of the session asks for it.

use crate::prelude::*;
use busbar_control::hello::SHARED_PROOF;
use busbar_transport::shared::{Door, PROOF, Segment};
use std::io;

/// Segments that wait to be asked for. A client hands one over right before it asks.
const MOST_WAITING: usize = 64;

type Waiting = BTreeMap<u64, (Segment, u64)>;

/// What was handed over and not yet asked for. Cheap to clone.
#[derive(Clone)]
pub struct Offers {
    waiting: Arc<Mutex<Waiting>>,
    name: Arc<str>,
}

fn proof(secret: &str) -> [u8; PROOF] {
    blake3::derive_key(SHARED_PROOF, secret.as_bytes())
}

impl Offers {
    /// Takes what comes through a door, for the session with this secret.
    pub fn open(door: Door, secret: &str) -> io::Result<Self> {
        let offers = Self {
            waiting: Arc::default(),
            name: door.name().into(),
        };
        let (to, proof) = (offers.clone(), blake3::hash(&proof(secret)));
        std::thread::Builder::new()
            .name("shared".into())
            .spawn(move || to.take_all(&door, proof))?;
        Ok(offers)
    }

    /// Where the client hands memory over.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn take_all(&self, door: &Door, proof: blake3::Hash) {
        loop {
            let (offer, caller) = match door.next() {
                Ok(x) => x,
                Err(e) if e.kind() == io::ErrorKind::Other => return,
                Err(_) => {
                    // A descriptor too few, or a stranger: neither may keep a core busy.
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    continue;
                }
            };
            if blake3::hash(&offer.proof) != proof {
                continue;
            }
            let mut waiting = lock(&self.waiting);
            if waiting.len() >= MOST_WAITING || waiting.contains_key(&offer.number) {
                continue;
            }
            waiting.insert(offer.number, (offer.memory, offer.len));
            drop(waiting);
            caller.accept();
        }
    }

    /// The segment of a number, and how many bytes it has.
    pub fn take(&self, number: u64) -> Option<(Segment, u64)> {
        lock(&self.waiting).remove(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_transport::shared::hand_over;

    #[test]
    fn only_the_sessions_own_client_hands_memory_over() {
        let offers = Offers::open(Door::open().unwrap(), "secret").unwrap();
        let s = Segment::new(8192).unwrap();
        assert!(hand_over(offers.name(), 1, 8192, &proof("another"), &s).is_err());
        assert!(offers.take(1).is_none());
        hand_over(offers.name(), 1, 8192, &proof("secret"), &s).unwrap();
        let (_, len) = offers.take(1).unwrap();
        assert_eq!(len, 8192);
        assert!(offers.take(1).is_none());
        assert!(hand_over(offers.name(), 2, 9000, &proof("secret"), &s).is_err());
    }

    #[test]
    fn segments_that_nobody_asks_for_are_bounded() {
        let offers = Offers::open(Door::open().unwrap(), "secret").unwrap();
        let s = Segment::new(4096).unwrap();
        let hand = |i| hand_over(offers.name(), i, 4096, &proof("secret"), &s);
        for i in 0..MOST_WAITING as u64 {
            hand(i).unwrap();
        }
        assert!(hand(1 << 40).is_err());
        assert!(offers.take(5).is_some());
        hand(5).unwrap();
    }
}
