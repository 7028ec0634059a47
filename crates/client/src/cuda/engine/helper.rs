//! Streams of our own, for what is not in the order of the program's.

use super::prelude::*;
use crate::cuda::engine::settled;

/// A stream of our own that waits for no other, and that nothing else is in meanwhile.
pub struct Helper {
    /// The call that it is for.
    pub cx: Cx,
    /// Its id.
    pub id: u32,
}

impl Helper {
    /// One in the context that a call is in.
    pub fn of(cx: Cx) -> Result<Self> {
        const NON_BLOCKING: u32 = 1;
        cx.need_context()?;
        let handles = &cx.state().handles;
        let usable = |raw: &u64| {
            let id = handles.id(Kind::Stream, *raw);
            id.is_none_or(|id| handles.context(Kind::Stream, id) == cx.scope)
        };
        let mut free = lock(&cx.client.helpers);
        while let Some(at) = free.iter().position(usable) {
            // Contexts that are gone have taken theirs along.
            if let Some(id) = handles.id(Kind::Stream, free.swap_remove(at)) {
                return Ok(Self { cx, id });
            }
        }
        drop(free);
        settled::not_alone(cx)?;
        let id = cx.create(Kind::Stream);
        cx.send(&msg::CuStreamCreate {
            ph_stream: id,
            flags: NON_BLOCKING,
        })
        .inspect_err(|_| cx.destroy(Kind::Stream, id))?;
        Ok(Self { cx, id })
    }

    /// Waits for all that is in it.
    pub fn wait(&self) -> Result<()> {
        let done = self
            .cx
            .call(&msg::CuStreamSynchronize { h_stream: self.id });
        done.map(drop)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let raw = self.cx.raw(Kind::Stream, self.id);
        lock(&self.cx.client.helpers).push(raw);
    }
}
