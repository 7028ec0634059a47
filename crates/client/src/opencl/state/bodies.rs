//! The kinds of objects. Each holds references to the objects that it is a part of, so that a
//! parent's death comes after those of its children; and says what its own death asks for.
#![forbid(unsafe_code)]

use super::args::Args;
use super::builds::Builds;
use super::event::Mark;
use super::image::Image;
use super::info;
use super::kernel::KernelInfo;
use super::maps::Maps;
use super::object::{Body, Object, Owner, Ref};
use super::order::Order;
use super::prelude::*;
use super::space::Group;
use super::values::{Asked, Table};
use super::{Job, User, memory};

/// Called with an object that goes; calls the program's function.
type Farewell = Box<dyn FnOnce(User) + Send>;

/// Functions of the program to call when an object goes, last added first.
#[derive(Default)]
pub struct Goodbyes(Mutex<Vec<Farewell>>);

impl Goodbyes {
    /// Adds one.
    pub fn add(&self, f: Farewell) {
        lock(&self.0).push(f);
    }

    fn due(&mut self, handle: Handle) -> Vec<Job> {
        let object = User(handle);
        let all = std::mem::take(&mut *lock(&self.0)).into_iter().rev();
        all.map(|f| Box::new(move || f(object)) as Job).collect()
    }
}

/// A platform of a server.
pub struct Platform<S: Owner> {
    /// Answers to queries.
    pub table: Table,
    /// Its devices; sub-devices are not among them.
    pub devices: Vec<Ref<Device<S>>>,
}

impl<S: Owner> Body for Platform<S> {
    type Home = S;
    const MAGIC: u32 = 0x6273_7001;
    const INVALID: i32 = CL_INVALID_PLATFORM;
}

impl<S: Owner> Platform<S> {
    /// Whether it or any of its devices has an extension that Busbar forwards.
    pub fn offers(&self, extension: &str) -> bool {
        let has = |t: &Table, param| info::lists(&t.text(param), extension);
        let mut devices = self.devices.iter();
        has(&self.table, CL_PLATFORM_EXTENSIONS)
            || devices.any(|d| has(&d.table, CL_DEVICE_EXTENSIONS))
    }

    /// Its devices of some kinds; the default device is the first, whatever it is. As with other
    /// drivers it does no harm to ask for kinds that nobody knows beside others: programs have all
    /// of them in a number with a sign, which is all bits when it is made longer.
    pub fn of_kind(&self, kind: u64) -> Result<Vec<&Ref<Device<S>>>> {
        refuse_if(kind & DEVICE_KINDS == 0, CL_INVALID_DEVICE_TYPE)?;
        let all = kind & CL_DEVICE_TYPE_ALL == CL_DEVICE_TYPE_ALL;
        let is = |(i, d): &(usize, &Ref<Device<S>>)| {
            let default = *i == 0 && kind & CL_DEVICE_TYPE_DEFAULT != 0;
            all || default || d.table.number(CL_DEVICE_TYPE) & kind != 0
        };
        let list: Vec<_> = self.devices.iter().enumerate().filter(is).collect();
        refuse_if(list.is_empty(), CL_DEVICE_NOT_FOUND)?;
        Ok(list.into_iter().map(|(_, d)| d).collect())
    }
}

const DEVICE_KINDS: u64 = CL_DEVICE_TYPE_DEFAULT
    | CL_DEVICE_TYPE_CPU
    | CL_DEVICE_TYPE_GPU
    | CL_DEVICE_TYPE_ACCELERATOR
    | CL_DEVICE_TYPE_CUSTOM;

/// A device of a server, or a part of one.
pub struct Device<S: Owner> {
    /// Answers to queries.
    pub table: Table,
    /// Answers that the description does not hold.
    pub extra: Asked,
    /// The device that it is a part of.
    pub parent: Option<Ref<Device<S>>>,
    /// Its platform.
    pub platform: OnceLock<Weak<Object<Platform<S>>>>,
}

impl<S: Owner> Body for Device<S> {
    type Home = S;
    const MAGIC: u32 = 0x6273_7002;
    const INVALID: i32 = CL_INVALID_DEVICE;

    fn counts(&self) -> bool {
        self.parent.is_some()
    }
}

impl<S: Owner> Device<S> {
    /// A device, or a part of `parent`.
    pub fn new(table: Table, parent: Option<Ref<Device<S>>>) -> Self {
        let platform = parent.as_ref().map(|p| p.platform.clone());
        Self {
            table,
            extra: Asked::default(),
            parent,
            platform: platform.unwrap_or_default(),
        }
    }

    /// The version of the device.
    pub fn version(&self) -> (u32, u32) {
        info::version(&self.table.text(CL_DEVICE_VERSION))
    }

    /// The device's platform.
    pub fn platform(&self) -> Option<Ref<Platform<S>>> {
        self.platform.get().and_then(Weak::upgrade)
    }

    /// Whether the device takes programs in an intermediate language.
    pub fn takes_il(&self) -> bool {
        !self.table.text(CL_DEVICE_IL_VERSION).is_empty()
    }

    /// Fails when the platform cannot compare the clocks of host and device.
    pub fn check_timer(&self) -> Result<()> {
        let platform = self.platform();
        let able = |p: Ref<Platform<S>>| p.table.number(CL_PLATFORM_HOST_TIMER_RESOLUTION) > 0;
        refuse_if(!platform.is_some_and(able), CL_INVALID_OPERATION)
    }
}

/// A context over devices of one platform.
pub struct Context<S: Owner> {
    /// Its devices.
    pub devices: Vec<Ref<Device<S>>>,
    /// As created.
    pub properties: Vec<u64>,
    /// Supported image formats, by flags and kind of image.
    pub formats: Mutex<HashMap<(u64, u32), Vec<u8>>>,
    /// Functions to call when it goes.
    pub goodbyes: Goodbyes,
    /// Queues that the program holds.
    queues: AtomicU32,
    /// The first of them.
    first_queue: OnceLock<Weak<Object<Queue<S>>>>,
}

impl<S: Owner> Body for Context<S> {
    type Home = S;
    const MAGIC: u32 = 0x6273_7003;
    const INVALID: i32 = CL_INVALID_CONTEXT;

    fn retire(&mut self, handle: Handle) -> Vec<Job> {
        self.goodbyes.due(handle)
    }
}

impl<S: Owner> Context<S> {
    /// A context over these devices.
    pub fn new(devices: Vec<Ref<Device<S>>>, properties: Vec<u64>) -> Self {
        Self {
            devices,
            properties,
            formats: Mutex::default(),
            goodbyes: Goodbyes::default(),
            queues: AtomicU32::new(0),
            first_queue: OnceLock::new(),
        }
    }

    /// The context's own reference to a device of it.
    pub fn device(&self, device: &Object<Device<S>>) -> Result<&Ref<Device<S>>> {
        let mut all = self.devices.iter();
        all.find(|d| d.is(device)).ok_or(CL_INVALID_DEVICE)
    }

    /// Whether any device of the context is as `f` says.
    pub fn any(&self, f: impl Fn(&Device<S>) -> bool) -> bool {
        self.devices.iter().any(|d| f(d))
    }

    /// Whether any device of the context answers with a number that is not zero.
    pub fn has(&self, param: u32) -> bool {
        self.any(|d| d.table.number(param) != 0)
    }

    /// The greatest answer of any device.
    pub fn most(&self, param: u32) -> u64 {
        let all = self.devices.iter().map(|d| d.table.number(param));
        all.max().unwrap_or(0)
    }
}

/// A queue.
pub struct Queue<S: Owner> {
    /// Its context.
    pub context: Ref<Context<S>>,
    /// Its device.
    pub device: Ref<Device<S>>,
    /// `CL_QUEUE_*`.
    pub properties: u64,
    /// As created.
    pub list: Vec<u64>,
    /// Bytes of a queue on a device.
    pub size: u32,
    /// How far it has come.
    pub order: Order,
    /// Events whose times the program may ask for next.
    recent: Mutex<VecDeque<Weak<Object<Event<S>>>>>,
}

/// The most events that one answer brings the times of.
const MOST_TIMES: usize = 64;

impl<S: Owner> Body for Queue<S> {
    type Home = S;
    const MAGIC: u32 = 0x6273_7004;
    const INVALID: i32 = CL_INVALID_COMMAND_QUEUE;

    fn left(&self, home: &S) {
        // Releasing a queue flushes it. Events keep the queue itself; the program can no longer use
        // it, which is what the count of queues is for.
        home.flush();
        self.context.queues.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<S: Owner> Queue<S> {
    /// A queue for a device of a context.
    pub fn new(
        context: Ref<Context<S>>,
        device: Ref<Device<S>>,
        (properties, size): (u64, u32),
        list: Vec<u64>,
    ) -> Self {
        context.queues.fetch_add(1, Ordering::Relaxed);
        Self {
            context,
            device,
            properties,
            list,
            size,
            order: Order::default(),
            recent: Mutex::default(),
        }
    }

    /// Whether commands run in the order of their calls.
    pub fn in_order(&self) -> bool {
        self.properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE == 0
    }

    /// Whether events keep times.
    pub fn profiling(&self) -> bool {
        self.properties & CL_QUEUE_PROFILING_ENABLE != 0
    }

    /// Whether a write may return before it has run: nothing could tell the difference.
    pub fn alone(&self) -> bool {
        self.in_order() && self.context.queues.load(Ordering::Relaxed) == 1
    }

    /// Its answers are to bring this event's times.
    pub fn expect_times(&self, event: &Ref<Event<S>>) {
        let mut recent = lock(&self.recent);
        recent.push_back(Arc::downgrade(event));
        if recent.len() > MOST_TIMES {
            recent.pop_front();
        }
    }

    /// The events whose times the next answer brings.
    pub fn take_expected(&self) -> Vec<Ref<Event<S>>> {
        let recent = std::mem::take(&mut *lock(&self.recent));
        recent.iter().filter_map(Weak::upgrade).collect()
    }
}

impl<S: Owner> Object<Queue<S>> {
    /// The context's first queue, if this is another and that one is still there. While the context
    /// has one queue, nothing can tell whether a write has run; from now on something could.
    pub fn joins(&self) -> Option<Ref<Queue<S>>> {
        let first = &self.context.first_queue;
        let first = first.get_or_init(|| Arc::downgrade(&self.keep()));
        first.upgrade().filter(|f| !f.is(self))
    }
}

/// An event of a command or of the program's own.
pub struct Event<S: Owner> {
    /// Its context.
    pub context: Ref<Context<S>>,
    /// Its command's queue; none for a user event.
    pub queue: Option<Ref<Queue<S>>>,
    /// `CL_COMMAND_*`.
    pub command: u32,
    /// What is known of it.
    pub mark: Arc<Mark>,
}

impl<S: Owner> Body for Event<S> {
    type Home = S;
    const MAGIC: u32 = 0x6273_7005;
    const INVALID: i32 = CL_INVALID_EVENT;
}

impl<S: Owner> Event<S> {
    /// Whether its command's times are kept.
    pub fn profiled(&self) -> bool {
        self.queue.as_ref().is_some_and(|q| q.profiling())
    }
}

/// A buffer or an image.
pub struct Memory<S: Owner> {
    /// Its context.
    pub context: Ref<Context<S>>,
    /// `CL_MEM_OBJECT_*`.
    pub kind: u32,
    /// As created, with what holds by default.
    pub flags: u64,
    /// Bytes.
    pub size: usize,
    /// The program's own memory behind the object, or 0.
    pub host: usize,
    /// What it is a part of, and where it begins there.
    pub parent: Option<(Ref<Memory<S>>, usize)>,
    /// As created.
    pub properties: Vec<u64>,
    /// Regions that the program has mapped.
    pub maps: Maps,
    /// What images have in addition.
    pub image: Option<Image>,
    /// Whether it is made over shared virtual memory.
    pub svm: bool,
    /// Functions to call when it goes.
    pub goodbyes: Goodbyes,
}

impl<S: Owner> Body for Memory<S> {
    type Home = S;
    const MAGIC: u32 = 0x6273_7006;
    const INVALID: i32 = CL_INVALID_MEM_OBJECT;
    const LISTED: bool = true;

    fn retire(&mut self, handle: Handle) -> Vec<Job> {
        self.goodbyes.due(handle)
    }
}

impl<S: Owner> Memory<S> {
    /// A memory object that nothing is mapped of.
    pub fn new(
        context: Ref<Context<S>>,
        kind: u32,
        flags: u64,
        size: usize,
        host: Handle,
        properties: Vec<u64>,
    ) -> Self {
        Self {
            context,
            kind,
            flags: memory::with_default(flags),
            size,
            host: match flags & CL_MEM_USE_HOST_PTR {
                0 => 0,
                _ => host as usize,
            },
            parent: None,
            properties,
            maps: Maps::default(),
            image: None,
            svm: false,
            goodbyes: Goodbyes::default(),
        }
    }

    /// Fails unless it is a buffer of this context.
    pub fn check_buffer(&self, context: &Object<Context<S>>) -> Result<()> {
        match self.kind == CL_MEM_OBJECT_BUFFER {
            true => self.check_context(context),
            false => Err(CL_INVALID_MEM_OBJECT),
        }
    }

    /// Fails unless it is of this context.
    pub fn check_context(&self, context: &Object<Context<S>>) -> Result<()> {
        refuse_if(!self.context.is(context), CL_INVALID_CONTEXT)
    }

    /// The image that it is, in this context.
    pub fn image(&self, context: &Object<Context<S>>) -> Result<&Image> {
        let image = self.image.as_ref().ok_or(CL_INVALID_MEM_OBJECT)?;
        self.check_context(context).map(|()| image)
    }

    /// Fails when the host may not read (or write) the object.
    pub fn host_may(&self, write: bool) -> Result<()> {
        memory::host_may(self.flags, write)
    }

    /// Fails when a range does not lie in the object.
    pub fn check_range(&self, offset: usize, size: usize) -> Result<()> {
        memory::check_range(self.size, offset, size)
    }
}

impl<S: Owner> Object<Memory<S>> {
    /// The object that it is a part of, or itself, and where a byte of it lies there.
    pub fn root(&self, offset: usize) -> (&Self, usize) {
        match &self.parent {
            Some((p, origin)) => (p, origin + offset),
            None => (self, offset),
        }
    }
}

/// A program.
pub struct Program<S: Owner> {
    /// Its context.
    pub context: Ref<Context<S>>,
    /// The devices that it is for.
    pub devices: Vec<Ref<Device<S>>>,
    /// Its text, if it was made from one.
    pub source: Option<Vec<u8>>,
    /// Its intermediate language, if it was made from that.
    pub il: Vec<u8>,
    /// What became of it.
    pub builds: Mutex<Builds>,
    /// Kernels of it that are there: while there are any it cannot be built again.
    kernels: AtomicU32,
    /// Functions to call when it goes.
    pub goodbyes: Goodbyes,
}

impl<S: Owner> Body for Program<S> {
    type Home = S;
    const MAGIC: u32 = 0x6273_7007;
    const INVALID: i32 = CL_INVALID_PROGRAM;

    fn retire(&mut self, handle: Handle) -> Vec<Job> {
        self.goodbyes.due(handle)
    }
}

impl<S: Owner> Program<S> {
    /// A program that was never built.
    pub fn new(context: &Object<Context<S>>, devices: Vec<Ref<Device<S>>>) -> Self {
        let ids: Vec<_> = devices.iter().map(|d| d.id).collect();
        Self {
            context: context.keep(),
            devices,
            source: None,
            il: Vec::new(),
            builds: Mutex::new(Builds::new(&ids)),
            kernels: AtomicU32::new(0),
            goodbyes: Goodbyes::default(),
        }
    }

    /// The names of its devices.
    pub fn ids(&self) -> Vec<u32> {
        self.devices.iter().map(|d| d.id).collect()
    }

    /// A build for some of its devices begins.
    pub fn begin(&self, chosen: &[u32], options: &str) -> Result<()> {
        match self.kernels.load(Ordering::Acquire) {
            0 => lock(&self.builds).begin(chosen, options),
            _ => Err(CL_INVALID_OPERATION),
        }
    }
}

/// A kernel.
pub struct Kernel<S: Owner> {
    /// Its program.
    pub program: Ref<Program<S>>,
    /// What is known of it.
    pub info: Arc<KernelInfo>,
    /// Its arguments.
    pub args: Mutex<Args>,
    /// Groups that the driver took although it does not say so.
    pub taken: Mutex<HashSet<Group>>,
}

impl<S: Owner> Body for Kernel<S> {
    type Home = S;
    const MAGIC: u32 = 0x6273_7008;
    const INVALID: i32 = CL_INVALID_KERNEL;

    fn retire(&mut self, _handle: Handle) -> Vec<Job> {
        self.program.kernels.fetch_sub(1, Ordering::AcqRel);
        Vec::new()
    }
}

impl<S: Owner> Kernel<S> {
    /// A kernel of a program.
    pub fn new(program: Ref<Program<S>>, info: Arc<KernelInfo>, args: Args) -> Self {
        program.kernels.fetch_add(1, Ordering::AcqRel);
        Self {
            program,
            info,
            args: Mutex::new(args),
            taken: Mutex::default(),
        }
    }
}

/// A sampler.
pub struct Sampler<S: Owner> {
    /// Its context.
    pub context: Ref<Context<S>>,
    /// Whether coordinates are normalized.
    pub normalized: u32,
    /// `CL_ADDRESS_*`.
    pub addressing: u32,
    /// `CL_FILTER_*`.
    pub filter: u32,
    /// As created.
    pub properties: Vec<u64>,
}

impl<S: Owner> Body for Sampler<S> {
    type Home = S;
    const MAGIC: u32 = 0x6273_7009;
    const INVALID: i32 = CL_INVALID_SAMPLER;
    const LISTED: bool = true;
}

#[cfg(test)]
mod tests {
    use super::super::ids::Ids;
    use super::super::object::{Death, retain};
    use super::*;

    /// A server that only takes notes.
    #[derive(Default)]
    struct Notes {
        ids: Ids,
        dead: Mutex<Vec<u32>>,
        jobs: Mutex<Vec<Job>>,
        flushed: AtomicU32,
    }

    impl Owner for Notes {
        fn table(&self) -> *const std::ffi::c_void {
            std::ptr::null()
        }
        fn ids(&self) -> &Ids {
            &self.ids
        }
        fn gone(&self, death: Death) {
            lock(&self.dead).push(death.id);
            lock(&self.jobs).extend(death.last);
        }
        fn flush(&self) {
            self.flushed.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct World {
        server: &'static Notes,
        device: Ref<Device<Notes>>,
        context: Ref<Context<Notes>>,
    }

    fn world() -> World {
        let server: &'static Notes = Box::leak(Box::default());
        let device = Object::new(server, 1, Device::new(Table::default(), None));
        let context = Context::new(vec![device.clone()], Vec::new());
        World {
            server,
            device,
            context: Object::new(server, 2, context),
        }
    }

    impl World {
        fn queue(&self, id: u32) -> Ref<Queue<Notes>> {
            let (c, d) = (self.context.clone(), self.device.clone());
            Object::new(self.server, id, Queue::new(c, d, (0, 0), Vec::new()))
        }
        fn buffer(&self, id: u32, parent: Option<Ref<Memory<Notes>>>) -> Ref<Memory<Notes>> {
            let c = self.context.clone();
            let null = std::ptr::null_mut();
            let mut m = Memory::new(c, CL_MEM_OBJECT_BUFFER, 0, 64, null, Vec::new());
            m.parent = parent.map(|p| (p, 16));
            Object::new(self.server, id, m)
        }
        fn dead(&self) -> Vec<u32> {
            std::mem::take(&mut lock(&self.server.dead))
        }
    }

    #[test]
    fn a_parent_dies_after_the_last_of_its_children() {
        let w = world();
        let buffer = w.buffer(3, None);
        let part = w.buffer(4, Some(buffer.clone()));
        assert_eq!((part.root(2).0.id, part.root(2).1), (3, 18));
        let event = Event {
            context: w.context.clone(),
            queue: Some(w.queue(5)),
            command: CL_COMMAND_MARKER,
            mark: Arc::new(Mark::new(CL_QUEUED)),
        };
        let event = Object::new(w.server, 6, event);
        drop(buffer);
        assert!(w.dead().is_empty(), "its part is still there");
        drop(part);
        assert_eq!(w.dead(), [4, 3]);
        let World {
            server,
            device,
            context,
        } = w;
        drop((device, context));
        assert!(lock(&server.dead).is_empty(), "its event is still there");
        drop(event);
        assert_eq!(*lock(&server.dead), [6, 5, 2, 1]);
    }

    #[test]
    fn memory_and_samplers_are_found_while_they_live_and_nothing_else_is() {
        let w = world();
        let buffer = w.buffer(3, None);
        let (at, kind) = (buffer.handle() as usize, <Memory<Notes> as Body>::MAGIC);
        assert_eq!(w.server.ids.find(at), Some((kind, 3)));
        assert_eq!(w.server.ids.find(w.context.handle() as usize), None);
        drop(buffer);
        assert_eq!(w.server.ids.find(at), None);
    }

    #[test]
    fn a_program_is_built_again_only_when_its_kernels_are_gone() {
        let w = world();
        let program = Program::new(&w.context, vec![w.device.clone()]);
        let program = Object::new(w.server, 3, program);
        let info = || Arc::new(KernelInfo::on_device(1, Table::default()));
        let kernel = Kernel::new(program.clone(), info(), Args::new(0));
        let kernel = Object::new(w.server, 4, kernel);
        assert_eq!(program.begin(&[1], ""), Err(CL_INVALID_OPERATION));
        drop(kernel);
        assert_eq!(program.begin(&[1], ""), Ok(()));
    }

    #[test]
    fn farewells_are_said_once_and_the_last_that_was_asked_for_first() {
        let w = world();
        let heard: Arc<Mutex<Vec<u32>>> = Arc::default();
        let buffer = w.buffer(3, None);
        let handle = buffer.handle() as usize;
        for n in [1, 2] {
            let heard = heard.clone();
            let say = move |object: User| {
                assert_eq!(object.get() as usize, handle);
                lock(&heard).push(n);
            };
            buffer.goodbyes.add(Box::new(say));
        }
        drop(buffer);
        let jobs = std::mem::take(&mut *lock(&w.server.jobs));
        jobs.into_iter().for_each(|job| job());
        assert_eq!(*lock(&heard), [2, 1]);
    }

    #[test]
    fn a_write_is_told_by_nothing_only_while_its_queue_is_the_only_one() {
        let w = world();
        let first = w.queue(3);
        assert!(first.joins().is_none() && first.alone());
        let second = w.queue(4);
        assert!(second.joins().is_some_and(|q| q.is(&first)));
        assert!(!first.alone() && !second.alone());
        // The program gives the second one up; an event may keep it.
        second.left(w.server);
        assert_eq!(w.server.flushed.load(Ordering::Relaxed), 1);
        assert!(first.alone());
    }

    #[test]
    fn the_references_of_a_device_count_only_if_it_is_a_part() {
        let w = world();
        let part = Device::new(Table::default(), Some(w.device.clone()));
        let part = Object::new(w.server, 9, part);
        retain(&w.device).unwrap();
        retain(&part).unwrap();
        assert_eq!((w.device.count(), part.count()), (1, 2));
    }

    #[test]
    fn an_answer_brings_the_times_of_the_events_that_are_still_there() {
        let w = world();
        let queue = w.queue(3);
        let event = |id| {
            let event = Event {
                context: w.context.clone(),
                queue: None,
                command: CL_COMMAND_MARKER,
                mark: Arc::new(Mark::new(CL_QUEUED)),
            };
            Object::new(w.server, id, event)
        };
        let all: Vec<_> = (10..10 + MOST_TIMES as u32 + 2).map(event).collect();
        all.iter().for_each(|e| queue.expect_times(e));
        drop(event(9));
        let expected = queue.take_expected();
        assert_eq!(expected.len(), MOST_TIMES);
        assert_eq!(expected[0].id, 12, "the oldest are left out");
        assert!(queue.take_expected().is_empty());
    }

    #[test]
    fn devices_are_chosen_by_their_kind() {
        let w = world();
        let kind = |k: u64| {
            let mut t = Table::default();
            t.set(CL_DEVICE_TYPE, super::super::values::Plain::plain(&k));
            Object::new(w.server, 0, Device::new(t, None))
        };
        let p: Platform<Notes> = Platform {
            table: Table::default(),
            devices: vec![kind(CL_DEVICE_TYPE_CPU), kind(CL_DEVICE_TYPE_GPU)],
        };
        let count = |k| p.of_kind(k).map(|l| l.len());
        assert_eq!(count(CL_DEVICE_TYPE_ALL), Ok(2));
        assert_eq!(count(CL_DEVICE_TYPE_DEFAULT), Ok(1));
        assert_eq!(count(CL_DEVICE_TYPE_GPU), Ok(1));
        let none = count(CL_DEVICE_TYPE_ACCELERATOR);
        assert_eq!(none, Err(CL_DEVICE_NOT_FOUND));
        assert_eq!(count(0), Err(CL_INVALID_DEVICE_TYPE));
        assert_eq!(count(1 << 20), Err(CL_INVALID_DEVICE_TYPE));
        assert_eq!(count(u64::MAX), Ok(2));
        assert_eq!(count(1 << 20 | CL_DEVICE_TYPE_GPU), Ok(1));
        assert_eq!(count(CL_DEVICE_TYPE_DEFAULT | CL_DEVICE_TYPE_GPU), Ok(2));
    }
}
