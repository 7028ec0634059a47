//! A call in progress.

use super::client::Client;
use super::thread;
use crate::cuda::state::State;
use crate::cuda::state::devices::Device;
use crate::cuda::state::handles::server_in;
use busbar_abi::cuda::*;
use busbar_wire::codec::{Message, Reader};
use busbar_wire::generated::cuda::Kind;
use std::ops::Deref;
use std::sync::Arc;

/// A call in progress: the client, and the context that it is made in, which is the current one of
/// the calling thread, or that of the stream that the call names.
#[derive(Clone, Copy)]
pub struct Cx {
    /// The client.
    pub client: &'static Client,
    /// The id of the context that the call is made in; 0 for none.
    pub scope: u32,
    /// The id of the context that is current to the program, whose device decides what a copy may
    /// touch, whichever stream it is put into; 0 where that is `scope`'s.
    pub current: u32,
}

impl Cx {
    /// A call of no context's.
    pub fn of(client: &'static Client) -> Self {
        let (scope, current) = (0, 0);
        Self {
            client,
            scope,
            current,
        }
    }

    /// The same call in another context.
    #[must_use]
    pub fn in_context(self, scope: u32) -> Self {
        Self { scope, ..self }
    }

    /// The same call, with the context that it is made in as the current one.
    #[must_use]
    pub fn for_itself(self) -> Self {
        Self { current: 0, ..self }
    }

    /// What the client knows.
    #[inline]
    pub fn state(self) -> &'static State {
        self.client.state
    }

    /// The id of a handle.
    #[inline]
    pub fn handle(self, kind: Kind, raw: u64) -> Result<u32, CUresult> {
        match self.state().handles.id(kind, raw) {
            Some(id) => Ok(id),
            None => self.elsewhere(kind, raw),
        }
    }

    /// The call, for another client.
    pub(super) fn with(self, client: &'static Client, scope: u32) -> Self {
        match std::ptr::eq(client, self.client) {
            true => self,
            false => Self::of(client).in_context(scope),
        }
    }

    /// An object of another client's: the call for that one, in the object's context, and the id.
    #[inline]
    pub fn others(self, kind: Kind, raw: u64) -> Option<(Self, u32)> {
        if self.client.many {
            self.of_another(kind, raw)
        } else {
            None
        }
    }

    fn of_another(self, kind: Kind, raw: u64) -> Option<(Self, u32)> {
        let other = self.client.of_server(server_in(raw)?)?;
        let id = other.state.handles.id(kind, raw)?;
        let context = match kind {
            Kind::Context => id,
            _ => other.state.handles.context(kind, id),
        };
        (!std::ptr::eq(other, self.client)).then_some((self.with(other, context), id))
    }

    /// What a handle that is none of this client's stands for here, or the error of one that stands
    /// for nothing. An object of another client's, as a rule, does not: that is noted, and the call
    /// is begun again with that client.
    #[cold]
    fn elsewhere(self, kind: Kind, raw: u64) -> Result<u32, CUresult> {
        if let Some((there, id)) = self.others(kind, raw) {
            if kind == Kind::Context {
                return Err(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
            }
            if kind == Kind::Function
                && let Some(twin) = (self.client.twin)((self.client, self.scope), there.client, id)
            {
                return Ok(twin);
            }
            let current = match there.scope {
                0 => 0,
                context => there.raw(Kind::Context, context),
            };
            thread::note_elsewhere(there.client, current);
        }
        Err(match kind {
            Kind::Context => CUDA_ERROR_INVALID_CONTEXT,
            Kind::Allocation | Kind::ResourceDesc => CUDA_ERROR_INVALID_VALUE,
            Kind::Graph | Kind::GraphNode | Kind::GraphExec if raw == 0 => CUDA_ERROR_INVALID_VALUE,
            Kind::MemoryPool | Kind::UserObject if raw == 0 => CUDA_ERROR_INVALID_VALUE,
            _ => CUDA_ERROR_INVALID_HANDLE,
        })
    }
    /// The id of a handle that may be null; 0 then.
    #[inline]
    pub fn handle_opt(self, kind: Kind, raw: u64) -> Result<u32, CUresult> {
        if raw == 0 {
            Ok(0)
        } else {
            self.handle(kind, raw)
        }
    }

    /// The handle of an id.
    pub fn raw(self, kind: Kind, id: u32) -> u64 {
        self.state().handles.raw(kind, id)
    }

    /// The handle of an object that the worker made, under the id that it chose.
    pub fn adopt(self, kind: Kind, id: u32) -> Result<u64, CUresult> {
        let adopted = self.state().handles.adopt(kind, id, self.scope);
        adopted.inspect_err(|_| {
            crate::log!(Error, "the worker chose an id that it may not: {id:#x}");
        })
    }

    /// Chooses the id of an object that the next call creates.
    pub fn create(self, kind: Kind) -> u32 {
        self.create_in(kind, self.scope)
    }

    /// As [`Cx::create`], of an object that belongs to another context, or to none.
    pub fn create_in(self, kind: Kind, context: u32) -> u32 {
        let handles = &self.state().handles;
        if handles.used_up(kind) {
            // Ids that were kept from use are needed: what is cached under them is forgotten.
            self.client.answers.forget_all(&[]);
            handles.use_again(kind);
        }
        handles.create(kind, context)
    }

    /// Ends a handle, and all that is known of its object.
    pub fn destroy(self, kind: Kind, id: u32) {
        self.state().retire(kind, id);
    }

    /// The current context's id; an error when there is none.
    #[inline]
    pub fn need_context(self) -> Result<u32, CUresult> {
        if self.scope == 0 {
            Err(CUDA_ERROR_INVALID_CONTEXT)
        } else {
            Ok(self.scope)
        }
    }

    /// The device with the program's ordinal. One of another client's is noted, as other objects
    /// are: a structure names it, and the call is begun again with that client.
    pub fn device(self, dev: CUdevice) -> Result<&'static Device, CUresult> {
        self.own_device(dev)
            .ok_or_else(|| self.not_a_device_here(dev))
    }

    #[cold]
    fn not_a_device_here(self, dev: CUdevice) -> CUresult {
        if self.client.many
            && let Some(there) = self.client.with_device(dev)
        {
            thread::note_elsewhere(there, 0);
        }
        CUDA_ERROR_INVALID_DEVICE
    }

    /// The device with the program's ordinal, if it is this client's.
    pub fn own_device(self, dev: CUdevice) -> Option<&'static Device> {
        self.client.devices.iter().find(|d| d.ordinal == dev)
    }

    /// The program's ordinal of the current context's device.
    #[inline]
    pub fn current_device(self) -> Result<CUdevice, CUresult> {
        let device = self.state().contexts.device(self.need_context()?);
        device.ok_or(CUDA_ERROR_INVALID_CONTEXT)
    }

    /// The device of the current context; the first one where none is current.
    #[inline]
    pub fn device_or_first(self) -> CUdevice {
        self.state().contexts.device(self.scope).unwrap_or(0)
    }

    /// The id of the context that a stream is in.
    #[inline]
    pub fn context_of(self, stream: u32) -> u32 {
        match stream {
            0 => self.scope,
            id => self.state().handles.context(Kind::Stream, id),
        }
    }

    /// The current context and its device.
    pub fn home(self) -> Result<(u32, CUdevice), CUresult> {
        Ok((self.need_context()?, self.current_device()?))
    }

    /// How many records have been queued so far that the worker executes in their turn.
    pub fn queued(self) -> u64 {
        self.client.session.records()
    }

    /// The session is over: the error of everything from now on.
    pub fn lost<T>(self) -> Result<T, CUresult> {
        Err(self.state().contexts.lose_session())
    }
}

/// A reply message's bytes.
#[derive(Clone, Debug)]
pub struct ReplyBytes(pub(super) Arc<[u8]>);

impl Deref for ReplyBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// Decodes a message that must be there to its last byte.
pub fn decode<'a, M: Message<'a>>(bytes: &'a [u8]) -> Result<M, CUresult> {
    let mut r = Reader::new(bytes);
    let m = M::decode(&mut r).and_then(|m| r.finish().map(|()| m));
    m.map_err(|e| {
        crate::log!(Error, "the worker's answer makes no sense: {e}");
        CUDA_ERROR_UNKNOWN
    })
}

/// Writes through a program's pointer.
///
/// # Safety
/// `p` is null or valid for a write of `T`.
pub unsafe fn put<T>(p: *mut T, v: T) -> Result<(), CUresult> {
    refuse_if(p.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: passed on to the caller.
    unsafe { p.write_unaligned(v) };
    Ok(())
}

/// Writes through a program's pointer, if it gave one.
///
/// # Safety
/// `p` is null or valid for a write of `T`.
pub unsafe fn put_opt<T>(p: *mut T, v: T) {
    if !p.is_null() {
        // SAFETY: passed on to the caller.
        unsafe { p.write_unaligned(v) };
    }
}
