//! The worker: one process per session, next to the accelerator.
//!
//! Records come in through [`intake`], wait in a queue and are executed in order by the one
//! executor ([`run`]), which hands them to the session's [`Api`]; some are executed [`ahead`] of
//! the queue. Answers leave through [`outbox`].
//! Bulk bytes land in [`staging`] memory without a copy in between, and [`content`] keeps module
//! images across sessions. Memory that a client on this host shares comes through [`shared`].
//! The server hands connections over ([`busbar_control::attach`]); `keeper` decides how long a
//! session without one is kept, and `process` sees a client of this host end; folders of a moment
//! are [`scratch`], `vendor` looks for libraries, and `named` keeps what callbacks are about;
//! what a client's ids stand for, and what dies with what, is in [`objects`]; device memory passes
//! [`memory`]'s gate, work for a device waits for its [`turn`], and [`inventory`] tells the server
//! what there is. What goes to devices of other servers does so over links, [`across`], and
//! libraries that talk to other servers by themselves do so over [`sockets`] of the server's.
//! Each forwarded API is a folder: [`cuda`], [`opencl`], and [`nccl`] beside that of CUDA, some of
//! whose calls are made [`at_once`] and which hears of its [`peers`]; nothing else in Busbar loads
//! a vendor's library.

pub mod across;
pub mod ahead;
mod answer;
pub mod apis;
mod aside;
pub mod at_once;
pub mod callback;
pub mod checkpoint;
pub mod complain;
pub mod content;
pub mod cuda;
pub mod done;
mod ears;
mod end;
mod host;
pub mod intake;
pub mod inventory;
mod keeper;
pub mod memory;
mod named;
pub mod nccl;
pub mod neighbours;
pub mod nvml;
pub mod objects;
pub mod opencl;
pub mod outbox;
pub mod peers;
mod prelude;
mod printed;
pub mod process;
pub mod run;
pub mod scratch;
pub mod shared;
pub mod signals;
pub mod sockets;
pub mod staging;
pub mod turn;
mod vendor;
mod welcome;

use busbar_control::hello::Refusal;
use busbar_transport::lock;
use busbar_wire::WireError;
use busbar_wire::record::Header;

/// One forwarded API, as the executor sees it. All methods are called on the executor's thread.
pub trait Api: std::any::Any {
    /// Executes one record. The payload lies in `hold`'s memory when it came as bulk, and then
    /// [`staging::Hold::take`] keeps that memory for as long as a copy out of it runs.
    ///
    /// An error means that the client broke the protocol, and ends the session.
    fn execute(
        &mut self,
        h: &Header,
        payload: &[u8],
        hold: &mut staging::Hold<'_>,
    ) -> Result<(), WireError>;

    /// As [`Api::execute`], of an API that is beside the session's own, which is `host`.
    fn execute_beside(
        &mut self,
        _host: &mut dyn Api,
        _h: &Header,
        _payload: &[u8],
    ) -> Result<(), WireError> {
        Err(WireError::BadValue("API of a record"))
    }

    /// Some records have been executed: a chance to look after what is in progress. With `leisure`
    /// the queue is empty. Returns whether it wants to be called again soon.
    fn poll(&mut self, _leisure: bool) -> bool {
        false
    }

    /// The queue was empty for a while, and something is coming.
    fn wake(&mut self) {}

    /// The next record has this mark, whichever API it is for; with `None` it is over. Asked of the
    /// session's own API, and of marked records only.
    fn marked(&mut self, _mark: Option<u64>) {}

    /// The session is over: everything it holds is given back.
    fn close(&mut self);
}

/// What an API gets to start with.
pub struct Setup {
    /// Where answers go.
    pub outbox: outbox::Outbox,
    /// Content by hash.
    pub content: content::Content,
    /// Functions of the program that something here waits for.
    pub callbacks: callback::Callbacks,
    /// Records that are executed ahead of the queue.
    pub ahead: ahead::Ahead,
    /// Where bulk records land; an API may register this memory with its driver.
    pub incoming: staging::Arena,
    /// Memory for bulk answers; likewise.
    pub outgoing: staging::Arena,
    /// Memory that a client on this host has handed over; `None` when there is none to come.
    pub shared: Option<shared::Offers>,
    /// Ways to sessions at other servers.
    pub links: across::Links,
    /// What the session has, for whoever asks.
    pub inventory: inventory::Inventory,
    /// What work for its devices passes.
    pub turn: turn::Turn,
    /// Threads that submit launches side by side; as suits the machine if not given.
    pub submitters: Option<usize>,
    /// Who hears of a fault.
    pub peers: peers::Peers,
    /// What takes the session's steps to a checkpoint.
    pub checkpoints: checkpoint::Checkpoints,
    /// Other sessions, as far as they give way to this one.
    pub neighbours: neighbours::Neighbours,
    /// Whether the end of this process while work is under way is a fault of others' work.
    pub dense: bool,
    /// Physical device ordinals that the session may use; `None` for all.
    pub devices: Option<Vec<u32>>,
    /// The vendor library to load instead of the system's.
    pub library: Option<String>,
    /// The NVML to load instead of the system's.
    pub nvml: Option<String>,
    /// The library that says what devices did; none where the machine has none.
    pub cupti: Option<String>,
    /// Whether the folders in which libraries keep what they compile are this session's alone.
    pub confined: bool,
}

/// What an API gets that is beside another in a session.
pub struct Beside {
    /// Where answers go.
    pub outbox: outbox::Outbox,
    /// Who makes calls that do not wait in the queue.
    pub at_once: at_once::AtOnce,
    /// The other ranks of the session's job.
    pub peers: peers::Peers,
    /// The vendor library to load instead of those that are found.
    pub library: Option<String>,
}

/// An API that a session may be of.
pub struct Offered {
    /// What the client calls it.
    pub name: &'static str,
    /// Opens it.
    pub open: Open,
    /// The APIs beside it, in the order of their numbers from 1 on.
    pub beside: fn(Beside) -> Vec<Box<dyn Api>>,
}

/// Makes an API ready. A refusal is what the client's user reads.
pub type Open = fn(Setup) -> Result<Box<dyn Api>, Refusal>;
