//! The session's objects by the ids that its client chose.

use super::built::Program;
use super::done::Event;
use super::prelude::*;
use crate::inventory::{Counter, Inventory};
use crate::memory::Charge;
use crate::objects::Sort;
use busbar_wire::generated::opencl::Kind;

/// Devices with their ids.
pub type Devices = Vec<(u32, Handle)>;

/// One object.
#[derive(Default)]
pub enum Object {
    /// No such object.
    #[default]
    None,
    /// It could not be made, for this reason.
    Failed(i32),
    /// A device; `true` for a sub-device, which is ours to release.
    Device(Handle, bool),
    /// A context with its devices.
    Context(Handle, Devices),
    /// A queue.
    Queue(Queue),
    /// A buffer or an image; the bytes that it was made over, if the API wants them kept.
    Memory(
        Handle,
        #[allow(dead_code, reason = "held, not read")] Option<Charge>,
    ),
    /// A sampler.
    Sampler(Handle),
    /// A program.
    Program(Arc<Program>),
    /// A kernel with the devices that it may be for.
    Kernel(Handle, Arc<Program>),
    /// An event.
    Event(Handle),
}

/// A queue.
#[derive(Clone, Copy)]
pub struct Queue {
    /// The library's.
    pub raw: Handle,
    /// Its context.
    pub context: Handle,
    /// The place of its device among the session's.
    pub place: usize,
    /// Whether commands may overtake each other.
    pub loose: bool,
    /// Whether events keep times.
    pub timed: bool,
    /// Whether it has commands that were not flushed.
    pub dirty: bool,
}

/// All objects of a session, in one space of ids. Nothing dies with another: the library counts
/// references.
pub struct Objects {
    table: crate::objects::Objects<(), Object>,
    /// How many there are of each kind, for others to see.
    counters: Vec<Counter>,
}

impl Sort for () {
    const COUNT: usize = 1;

    fn index(self) -> usize {
        0
    }
}

/// What has an id, if it is of that kind; else the code for what is not, or why it was not made.
macro_rules! looked_up {
    ($($(#[$doc:meta])* $name:ident: $t:ty = $kind:pat => $value:expr, $invalid:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(&self, id: u32) -> Result<$t, i32> {
            match self.get(id) {
                $kind => Ok($value),
                _ => self.fail(id, $invalid),
            }
        }
    )*};
}

impl Objects {
    /// None yet.
    pub fn new(inventory: &Inventory) -> Self {
        let counters = Kind::ALL.iter().map(|k| inventory.counter(k.name()));
        Self {
            table: crate::objects::Objects::default(),
            counters: counters.collect(),
        }
    }

    fn counter(&self, o: &Object) -> Option<&Counter> {
        Some(&self.counters[o.kind()? as usize])
    }

    /// Puts an object under an id; false for 0, which means none.
    pub fn put(&mut self, id: u32, o: Object) -> bool {
        if id != 0 {
            drop(self.take(id));
            self.counter(&o).into_iter().for_each(Counter::up);
            self.table.put(((), id), o, &[]);
        }
        id != 0
    }

    /// The object with this id.
    pub fn get(&self, id: u32) -> &Object {
        self.table.get((), id).unwrap_or(&Object::None)
    }

    /// The object with this id, to change.
    pub fn get_mut(&mut self, id: u32) -> Option<&mut Object> {
        self.table.get_mut((), id)
    }

    /// Takes an object out.
    pub fn take(&mut self, id: u32) -> Object {
        let dead = self.table.retire(((), id)).pop();
        let gone = dead.map(|(_, o)| o).unwrap_or_default();
        self.counter(&gone).into_iter().for_each(Counter::down);
        gone
    }

    fn fail<T>(&self, id: u32, invalid: i32) -> Result<T, i32> {
        match self.get(id) {
            Object::Failed(e) => Err(*e),
            _ => Err(invalid),
        }
    }

    looked_up! {
        /// A device.
        device: Handle = Object::Device(h, _) => *h, CL_INVALID_DEVICE;
        /// A context.
        context: Handle = Object::Context(h, _) => *h, CL_INVALID_CONTEXT;
        /// A context's devices.
        context_devices: Devices = Object::Context(_, d) => d.clone(), CL_INVALID_CONTEXT;
        /// A queue.
        queue: Queue = Object::Queue(q) => *q, CL_INVALID_COMMAND_QUEUE;
        /// A memory object.
        memory: Handle = Object::Memory(h, _) => *h, CL_INVALID_MEM_OBJECT;
        /// A sampler.
        sampler: Handle = Object::Sampler(h) => *h, CL_INVALID_SAMPLER;
        /// A program.
        program: Arc<Program> = Object::Program(p) => p.clone(), CL_INVALID_PROGRAM;
        /// A kernel.
        kernel: Handle = Object::Kernel(h, _) => *h, CL_INVALID_KERNEL;
        /// A kernel's program.
        kernel_program: Arc<Program> = Object::Kernel(_, p) => p.clone(), CL_INVALID_KERNEL;
        /// An event.
        event: Handle = Object::Event(h) => *h, CL_INVALID_EVENT;
    }

    /// All queues with their ids.
    pub fn queues(&self) -> impl Iterator<Item = (u32, Queue)> {
        let all = self.table.of(());
        all.filter_map(|(id, o)| match o {
            Object::Queue(q) => Some((id, *q)),
            _ => None,
        })
    }

    /// Devices with their ids.
    pub fn devices(&self, ids: &[u32]) -> Result<Devices, i32> {
        ids.iter().map(|id| Ok((*id, self.device(*id)?))).collect()
    }

    /// Hands every queue with new commands to its device.
    pub fn flush(&mut self, cl: &Cl, dirty: &mut Vec<u32>) {
        for id in dirty.drain(..) {
            if let Some(Object::Queue(q)) = self.get_mut(id) {
                q.dirty = false;
                // SAFETY: a queue of ours.
                unsafe { (cl.clFlush)(q.raw) };
            }
        }
    }

    /// The events among these that are still there, each with one more owner.
    pub fn timed(&self, cl: &Cl, ids: &[u32]) -> Vec<(u32, Event)> {
        let found = |id: &u32| Some((*id, self.event(*id).ok()?));
        let keep = |(id, e)| {
            // SAFETY: an event of ours.
            unsafe { (cl.clRetainEvent)(e) };
            (id, Event(e))
        };
        ids.iter().filter_map(found).map(keep).collect()
    }
}

impl Object {
    fn kind(&self) -> Option<Kind> {
        Some(match self {
            // Only those that the program made.
            Self::Device(_, true) => Kind::Device,
            Self::Context(..) => Kind::Context,
            Self::Queue(_) => Kind::Queue,
            Self::Memory(..) => Kind::Memory,
            Self::Sampler(_) => Kind::Sampler,
            Self::Program(_) => Kind::Program,
            Self::Kernel(..) => Kind::Kernel,
            Self::Event(_) => Kind::Event,
            Self::None | Self::Failed(_) | Self::Device(_, false) => return None,
        })
    }

    /// Gives up our reference.
    pub fn release(self, cl: &Cl) {
        // SAFETY: each handle is of its kind, and the table held one reference to it.
        unsafe {
            match self {
                Self::Device(h, true) => (cl.clReleaseDevice)(h),
                Self::Context(h, _) => (cl.clReleaseContext)(h),
                Self::Queue(q) => (cl.clReleaseCommandQueue)(q.raw),
                Self::Memory(h, _) => (cl.clReleaseMemObject)(h),
                Self::Sampler(h) => (cl.clReleaseSampler)(h),
                Self::Kernel(h, _) => (cl.clReleaseKernel)(h),
                Self::Event(h) => (cl.clReleaseEvent)(h),
                Self::Program(_) | Self::None | Self::Failed(_) | Self::Device(_, false) => 0,
            };
        }
    }
}
