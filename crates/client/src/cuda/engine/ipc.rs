//! Memory and events that processes of one server share.
//!
//! A memory handle names the worker that has the memory, and carries a secret of 128 bits: who
//! holds the handle may import, and nobody else. The importing worker gets the memory from the
//! exporting one, machine-locally, and maps it at an address chosen here.

use super::prelude::*;
use crate::cuda::state::space;
use crate::cuda::state::vmm::Import;

const MAGIC: [u8; 8] = *b"busbar\0\x01";

/// What a memory handle says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handle {
    /// The worker that has the memory.
    pub tag: [u8; 8],
    /// What it gives the memory for.
    pub secret: [u8; 16],
    /// Bytes of the whole mapping.
    pub mapped: u64,
    /// Where the allocation lies in it.
    pub offset: u64,
    /// Its length.
    pub size: u64,
}

impl Handle {
    /// As a program carries it.
    pub fn bytes(&self) -> [u8; 64] {
        let mut b = [0; 64];
        b[..8].copy_from_slice(&MAGIC);
        b[8..16].copy_from_slice(&self.tag);
        b[16..32].copy_from_slice(&self.secret);
        for (i, n) in [self.mapped, self.offset, self.size].iter().enumerate() {
            b[32 + 8 * i..40 + 8 * i].copy_from_slice(&n.to_le_bytes());
        }
        b
    }

    /// What such bytes say, if they make sense.
    pub fn parse(b: &[u8; 64]) -> Option<Self> {
        let number = |i: usize| {
            let mut n = [0; 8];
            n.copy_from_slice(&b[32 + 8 * i..40 + 8 * i]);
            u64::from_le_bytes(n)
        };
        let (mut tag, mut secret) = ([0; 8], [0; 16]);
        tag.copy_from_slice(&b[8..16]);
        secret.copy_from_slice(&b[16..32]);
        let h = Self {
            tag,
            secret,
            mapped: number(0),
            offset: number(1),
            size: number(2),
        };
        let fits = h.offset.checked_add(h.size)? <= h.mapped;
        let whole = h.mapped.is_multiple_of(space::GRANULE);
        (b[..8] == MAGIC && fits && whole && h.size > 0).then_some(h)
    }
}

/// Maps what a handle names, unless it is mapped already; gives the mapping's address.
pub fn import(cx: Cx, h: &Handle) -> Result<()> {
    let (context, device) = cx.home()?;
    cx.state().order.others_will_see();
    // A whole mapping has granules of its own here, too, however small it is.
    let at = cx
        .state()
        .spaces
        .place(device as u32, h.mapped, |va, size| {
            cx.call(&msg::IpcImport {
                va,
                size,
                device,
                tag: h.tag,
                secret: h.secret,
            })
            .map(drop)
        })?;
    let new = Import {
        at,
        device,
        mapped: h.mapped,
        context,
        open: HashMap::new(),
    };
    cx.state().imports.insert(h.secret, new);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_says_what_was_put_in_and_a_made_up_one_nothing() {
        let h = Handle {
            tag: [1; 8],
            secret: [2; 16],
            mapped: 2 << 20,
            offset: 4096,
            size: 100,
        };
        assert_eq!(Handle::parse(&h.bytes()), Some(h));
        assert_eq!(Handle::parse(&[0; 64]), None);
        let beyond = Handle { size: 2 << 20, ..h };
        assert_eq!(Handle::parse(&beyond.bytes()), None);
        let wraps = Handle {
            offset: u64::MAX,
            ..h
        };
        assert_eq!(Handle::parse(&wraps.bytes()), None);
    }
}
