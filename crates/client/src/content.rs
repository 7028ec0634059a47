//! Module images and program sources, offered by hash and sent only when the server lacks them.

use crate::lock::lock;
use busbar_channel::{Bulk, Channel, Closed};
use busbar_wire::limits::BULK_CHUNK;
use busbar_wire::record::OP_CONTENT;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The name of a piece of content: its BLAKE3 hash.
pub type Hash = [u8; 32];

/// One piece of content, and the number of waiting calls made before it was offered.
type Offer = (u64, Arc<[u8]>);

/// Content that a record has named and that the worker may still ask for.
#[derive(Default)]
pub struct Offers {
    offers: Mutex<HashMap<Hash, Offer>>,
}

impl Offers {
    /// Offers `bytes`, to be kept until the worker is known to have them. `stamp` is the number of
    /// waiting calls made so far.
    pub fn offer(&self, stamp: u64, bytes: Arc<[u8]>) -> Hash {
        let hash = *blake3::hash(&bytes).as_bytes();
        let mut offers = lock(&self.offers);
        offers.insert(hash, (stamp, bytes));
        hash
    }

    /// A call made after `stamp` was answered, so every offer made before it has been looked at by
    /// the worker: whatever it lacked it has asked for and got.
    pub fn settled(&self, stamp: u64) {
        let mut offers = lock(&self.offers);
        if !offers.is_empty() {
            offers.retain(|_, (s, _)| *s >= stamp);
        }
    }

    /// The worker asks for `hash`. False when it was never offered.
    pub fn send(&self, channel: &Channel, hash: &Hash) -> Result<bool, Closed> {
        let bytes = {
            let offers = lock(&self.offers);
            match offers.get(hash) {
                Some((_, b)) => b.clone(),
                None => return Ok(false),
            }
        };
        let keep: Arc<dyn std::any::Any + Send + Sync> = Arc::new(bytes.clone());
        let total = bytes.len() as u64;
        let mut offset = 0;
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
            if offset >= bytes.len() {
                return Ok(true);
            }
        }
    }
}
