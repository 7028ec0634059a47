//! Module images and program sources, offered by hash and sent only when the server lacks them.

use crate::prelude::*;
use crate::progress::Progress;
use busbar_channel::{Bulk, Channel, Closed};
use busbar_wire::limits::BULK_CHUNK;
use busbar_wire::record::OP_CONTENT;

/// The name of a piece of content: its BLAKE3 hash.
pub type Hash = [u8; 32];

/// A piece of content.
struct Offer {
    bytes: Arc<[u8]>,
    /// Threads that are about to queue a record with its name.
    naming: usize,
    /// Waiting calls that were made before the last such record was queued.
    stamp: u64,
}

/// Content that a record has named and that the worker may still ask for.
#[derive(Default)]
pub struct Offers {
    offers: Mutex<HashMap<Hash, Offer>>,
}

impl Offers {
    /// Offers `bytes`, to be kept until the worker is known to have them: until a waiting call is
    /// answered that was made after [`Offers::named`].
    pub fn offer(&self, bytes: Arc<[u8]>) -> Hash {
        let hash = *blake3::hash(&bytes).as_bytes();
        let (naming, stamp) = (0, 0);
        let new = || Offer {
            bytes,
            naming,
            stamp,
        };
        lock(&self.offers).entry(hash).or_insert_with(new).naming += 1;
        hash
    }

    /// The record with the name of an offer is queued. `stamp` is the number of waiting calls made
    /// so far.
    pub fn named(&self, hash: &Hash, stamp: u64) {
        if let Some(o) = lock(&self.offers).get_mut(hash) {
            o.naming -= 1;
            o.stamp = o.stamp.max(stamp);
        }
    }

    /// A call made after `stamp` was answered, so every record queued before it has been looked at
    /// by the worker: whatever it lacked it has asked for and got.
    pub fn answered(&self, stamp: u64) {
        let mut offers = lock(&self.offers);
        if !offers.is_empty() {
            offers.retain(|_, o| o.naming > 0 || o.stamp >= stamp);
        }
    }

    /// The worker asks for `hash`. False when it was never offered.
    pub fn send(&self, channel: &Channel, hash: &Hash) -> Result<bool, Closed> {
        let bytes = {
            let offers = lock(&self.offers);
            match offers.get(hash) {
                Some(o) => o.bytes.clone(),
                None => return Ok(false),
            }
        };
        let keep: Arc<dyn std::any::Any + Send + Sync> = Arc::new(bytes.clone());
        let total = bytes.len() as u64;
        let mut offset = 0;
        let mut progress = Progress::of(bytes.len());
        loop {
            let piece = &bytes[offset..bytes.len().min(offset + BULK_CHUNK)];
            channel.push_bulk(
                OP_CONTENT,
                0,
                0,
                |out| {
                    out.extend_from_slice(hash);
                    out.extend_from_slice(&total.to_le_bytes());
                    out.extend_from_slice(&(offset as u64).to_le_bytes());
                },
                Bulk::Shared(piece.as_ptr(), piece.len(), &keep),
            )?;
            offset += piece.len();
            if let Some(p) = &mut progress {
                p.add(piece.len());
            }
            if offset >= bytes.len() {
                return Ok(true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(o: &Offers) -> usize {
        lock(&o.offers).len()
    }

    #[test]
    fn an_offer_stays_until_a_call_after_the_record_that_names_it_is_answered() {
        let o = Offers::default();
        let hash = o.offer(Arc::from(&b"code"[..]));
        // Calls of other threads, made before the record is queued.
        o.answered(0);
        o.answered(7);
        assert_eq!(kept(&o), 1);
        o.named(&hash, 8);
        o.answered(8);
        assert_eq!(kept(&o), 1, "that call may be ahead of the record");
        o.answered(9);
        assert_eq!(kept(&o), 0);
    }

    #[test]
    fn what_two_threads_offer_is_kept_for_both() {
        let o = Offers::default();
        let hash = o.offer(Arc::from(&b"code"[..]));
        assert_eq!(o.offer(Arc::from(&b"code"[..])), hash);
        o.named(&hash, 1);
        o.answered(5);
        assert_eq!(kept(&o), 1);
        o.named(&hash, 3);
        o.answered(5);
        assert_eq!(kept(&o), 0);
    }
}
