//! A session's OpenCL side: the executor's state, and what each message's handler asks of it.

use super::done::{Answer, Completer, Events, Then};
use super::headers::Room;
use super::landing::Pool;
use super::objects::Objects;
use super::prelude::*;
use super::shared::Shared;
use crate::answer::Outcome;
use crate::content::Content;
use crate::memory::{Charge, Full, Gate, Use};
use crate::outbox::Outbox;
use crate::printed::Printed;
use crate::staging::Lent;
use crate::turn::{Turn, Unmarked, WorkKind};
use busbar_wire::record::Header;

/// A session's state.
pub struct OpenCl {
    pub cl: &'static Cl,
    /// The record that is being executed.
    pub record: Header,
    pub outbox: Outbox,
    pub content: Content,
    /// Whether a device is this machine's processor: kernels are machine code in this process.
    pub native: bool,
    pub printed: Printed,
    pub objects: Objects,
    pub completer: Completer,
    pub platforms: Vec<(Handle, Vec<u32>)>,
    pub dirty: Vec<u32>,
    pub blobs: HashMap<u32, Vec<u8>>,
    pub svm: HashMap<u64, Svm>,
    /// What device memory passes.
    pub gate: Gate,
    pub handles: Vec<Handle>,
    pub pool: Pool,
    pub shared: Shared,
    /// What commands wait for.
    pub turn: Turn,
    /// Queues that have commands without a mark.
    pub unmarked: Unmarked<u32>,
    /// What the record being executed has a device do, where its name says too little.
    pub work: Option<WorkKind>,
    /// The memory that the record being executed came in.
    pub slab: Option<Lent>,
    /// Held by each build that is under way.
    pub builds: Arc<()>,
    /// What the headers of those take.
    pub header_room: Arc<Room>,
}

/// Shared virtual memory.
pub struct Svm {
    /// Its context.
    pub context: Handle,
    /// How long it is.
    pub len: usize,
    /// What it takes.
    pub _charge: Charge,
}

/// Where the library puts the event of a command.
pub type Made = *mut Handle;

/// The data of a message.
pub enum Data<'a> {
    /// In the record.
    Inline(&'a [u8]),
    /// Collected from pieces.
    Blob(Vec<u8>),
}

impl Data<'_> {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Inline(b) => b,
            Self::Blob(v) => v,
        }
    }
}

impl OpenCl {
    /// The data of a message: inline, or from a blob that came before.
    pub fn data<'a>(&mut self, blob: u32, inline: &'a [u8]) -> Result<Data<'a>, Fail> {
        match blob {
            0 => Ok(Data::Inline(inline)),
            id => match self.blobs.remove(&id) {
                Some(v) => Ok(Data::Blob(v)),
                None => Err(Fail::Wire(WireError::BadValue("data id"))),
            },
        }
    }

    /// The record is executed as far as its handler goes: the client is told what there is to tell.
    pub fn answer<T: Outcome>(
        &mut self,
        body: &[u8],
        given: Result<T, Fail>,
    ) -> Result<(), WireError> {
        let Header { call, op, .. } = self.record;
        let (rc, told) = match given {
            Ok(told) => (told.code(), Some(told)),
            Err(Fail::Wire(e)) => return Err(e),
            Err(Fail::Code(rc) | Fail::Behind(rc)) => (Some(rc), None),
        };
        let Some(rc) = rc else { return Ok(()) };
        if call != 0 {
            if rc != CL_SUCCESS {
                self.printed.flush();
            }
            self.outbox.reply(call, rc, |w| {
                told.into_iter().for_each(|t| t.encode(w));
            });
        } else if rc != CL_SUCCESS {
            // Every message whose failure belongs to a queue begins with the queue's id.
            let queue = body.first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
            self.outbox.error(rc, |w| {
                w.u16(op);
                w.u32(queue);
            });
        }
        Ok(())
    }

    /// Takes device memory for the session. A context's devices have it between them.
    pub fn charge(&self, kind: Use, bytes: u64) -> Result<Charge, i32> {
        let taken = self.gate.take(kind, None, bytes);
        taken.map_err(|Full| CL_MEM_OBJECT_ALLOCATION_FAILURE)
    }

    /// Answers the call once events have come, or after what has come, if there are none.
    pub fn answer_after(&self, events: Option<Events>, answer: Answer) -> Answered {
        let call = self.record.call;
        let then = Then::Answer { call, answer };
        match events {
            Some(events) => self.completer.after(events, then),
            None => self.completer.now(CL_SUCCESS, then),
        }
        Answered
    }
}
