//! Which of a process's clients a call is for, where it has several: one for each server.
//!
//! A thread's calls are for the client of its current context. Another's is taken where an argument
//! says so: a device's ordinal, an address, a context's handle say it before the call begins
//! (generated code asks), any other handle when it is looked up: then the call is begun again with
//! the client that has the object.

use super::client::Client;
use super::cx::Cx;
use crate::cuda::state::State;
use crate::cuda::state::handles::server_in;
use crate::cuda::state::space;
use busbar_abi::cuda::*;

impl Cx {
    /// The call, for the client that has a device.
    #[inline]
    pub fn of_device(self, dev: CUdevice) -> Self {
        if self.client.many {
            self.has_device(dev)
        } else {
            self
        }
    }

    #[cold]
    fn has_device(self, dev: CUdevice) -> Self {
        let found = self.client.with_device(dev);
        found.map_or(self, |c| self.with(c, 0))
    }

    /// The call, for the client that has the memory at an address, and in that memory's context.
    #[inline]
    pub fn of_address(self, p: u64) -> Self {
        if self.client.many {
            self.has_address(p)
        } else {
            self
        }
    }

    #[cold]
    fn has_address(self, p: u64) -> Self {
        // Page-locked memory is known to all, and of the context of one.
        let known = |c: &Client| c.state.ranges.find(p).filter(|r| r.context != 0);
        if known(self.client).is_some() {
            return self;
        }
        let all = self.client.all();
        if let Some((c, r)) = all.iter().find_map(|c| Some((c, known(c)?))) {
            return self.with(c, r.context);
        }
        // What is reserved, and not mapped yet.
        let server = space::server_of(p, self.state().spaces.share.of);
        let client = server.and_then(|s| self.client.of_server(s));
        client.map_or(self, |c| self.with(c, 0))
    }

    /// The call, for the client that has a context; that stays current which is.
    #[inline]
    pub fn of_context(self, ctx: CUcontext) -> Self {
        if self.client.many {
            self.has_context(ctx)
        } else {
            self
        }
    }

    #[cold]
    fn has_context(self, ctx: CUcontext) -> Self {
        let server = server_in(ctx as u64).filter(|_| !ctx.is_null());
        let client = server.and_then(|s| self.client.of_server(s));
        client.map_or(self, |c| self.with(c, 0))
    }

    /// A number that no other context of the process has now.
    pub fn context_key(self) -> u32 {
        self.scope | (self.client.server as u32) << 24
    }

    /// The process's clients but for this one.
    pub fn rest(self) -> impl Iterator<Item = Self> {
        let all = self.client.all().iter();
        all.filter(move |c| !std::ptr::eq(**c, self.client))
            .map(|c| Cx::of(c))
    }

    /// Whether work that is queued may still write `len` bytes of the program's at `p`: any
    /// server's. What a server shares with the program it writes unseen.
    pub fn may_still_write(self, p: u64, len: usize) -> bool {
        let by = |state: &State| state.order.may_still_write(p, len);
        by(self.state())
            || self.client.many
                && self
                    .rest()
                    .any(|o| by(o.state()) || o.state().is_shared(p, len))
    }
}
