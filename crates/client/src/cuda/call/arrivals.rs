//! Copies that go on by themselves and end in the program's memory.
//!
//! Bytes are received where they belong, unless kernels have come to see that memory since the copy
//! was queued. Then they are put aside, and brought to their place as a function of the program's
//! in stream order would: blocks that the device has are let in to, and what has changed goes back
//! at once. What is queued from then on until they are there may be behind such a copy, which
//! nobody here knows: so its stream comes to a gate first. When it has come to that and the copy is
//! done, the bytes have come before the gate is heard of, and are brought first. When the copy is
//! not done, nothing behind the gate depends on it, and the gate opens all the same.

use super::cx::Cx;
use super::fault;
use super::jobs::{Does, jobs, soon};
use crate::cuda::state::area::ANY;
use crate::cuda::state::rows::HostBox;
use crate::landing::Landing;
use crate::prelude::*;
use crate::ring::Part;
use busbar_abi::cuda::*;
use busbar_wire::codec::Request;

/// How often is looked whether what nobody tells of is over.
const LOOK: Duration = Duration::from_micros(50);

/// Bytes that arrive by themselves in the program's memory, for as long as it lives.
pub struct Arriving {
    cx: Cx,
    number: u64,
    landing: Arc<Landing>,
}

impl Arriving {
    /// Bytes that go somewhere in `len` bytes at `place`.
    pub fn new(cx: Cx, place: u64, len: usize) -> Self {
        Self::at(cx, (place, len), false)
    }

    /// What a graph writes to memory of which the worker has an image.
    pub fn of_graph(cx: Cx, place: u64, len: usize) -> Self {
        Self::at(cx, (place, len), true)
    }

    /// Bytes that will be put in their places in a box.
    pub fn of_box(cx: Cx, b: &HostBox) -> Self {
        Self::at(cx, b.span(), false)
    }

    fn at(cx: Cx, (p, len): (u64, usize), in_image: bool) -> Self {
        let landing = Arc::new(Landing::new(p as usize, len));
        let number = cx.state().order.arrives(landing.clone(), in_image);
        // Kernels may have come to see it since the caller looked.
        if cx.state().shadows.device_side(p, 1).is_some() {
            cx.state().order.put_aside(p, len);
        }
        Self {
            cx,
            number,
            landing,
        }
    }

    /// A part that has come is put in its place.
    pub fn land(self: &Arc<Self>, part: Part) {
        if let Some(put) = self.landing.land(|| part.put()) {
            bring(self.clone(), put);
        }
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.cx.state().order.arrived(self.number);
    }
}

/// Brings what was put aside to its place.
#[cold]
fn bring(arriving: Arc<Arriving>, put: impl FnOnce() + Send + 'static) {
    let cx = Cx::of(arriving.cx.client);
    let order = &cx.state().order;
    order.coming();
    soon(cx.client, move || {
        // With the session the other side of this memory is gone.
        if cx.client.session.closed().is_none() {
            fault::in_function(put);
            cx.function_ran();
        }
        drop(arriving);
        order.brought();
    });
}

impl Cx {
    /// Sends a message whose bulk answer arrives by itself.
    ///
    /// # Safety
    /// The place stays the program's to write, if only by a fault, until the bytes have arrived.
    pub unsafe fn later<'a, R: Request<'a>>(self, m: &R, arriving: Arriving) -> Result<()> {
        self.state().order.program_will_see();
        let landing = arriving.landing.clone();
        let arrived = move |a| {
            if self.has_come(a) && arriving.landing.is_aside() {
                let landing = arriving.landing.clone();
                // SAFETY: passed on to the caller.
                bring(Arc::new(arriving), move || unsafe { landing.bring() });
            }
        };
        let session = &self.client.session;
        // SAFETY: passed on to the caller.
        let sent = unsafe { session.call_landing(self.scope, m, landing, arrived) };
        sent.map_err(|_| CUDA_ERROR_DEVICE_UNAVAILABLE)
    }

    /// As [`Cx::later`], for bytes that arrive at `place` first, and that `put` puts where they
    /// belong.
    ///
    /// # Safety
    /// `place` stays writable for as long as `put` lives.
    pub unsafe fn later_by<'a, R: Request<'a>>(
        self,
        m: &R,
        place: (*mut u8, usize),
        arriving: Arriving,
        put: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        self.state().order.program_will_see();
        let arrived = move |a| {
            if self.has_come(a)
                && let Some(put) = arriving.landing.land(put)
            {
                bring(Arc::new(arriving), put);
            }
        };
        let session = &self.client.session;
        // SAFETY: passed on to the caller.
        let sent = unsafe { session.call_async(self.scope, m, Some(place), arrived) };
        sent.map_err(|_| CUDA_ERROR_DEVICE_UNAVAILABLE)
    }

    /// Whether an answer says that bytes have come. What went wrong is told later.
    fn has_come(self, a: Option<crate::calls::Answer>) -> bool {
        let status = a.map_or(CUDA_ERROR_DEVICE_UNAVAILABLE, |a| a.status);
        if status != CUDA_SUCCESS {
            self.state().contexts.defer(self.scope, status);
        }
        status == CUDA_SUCCESS
    }

    /// Waits for something that nobody tells of, unless the session is over.
    pub fn look_until(self, over: impl Fn() -> bool) {
        let session = &self.client.session;
        while !over() && session.closed().is_none() {
            session.flush();
            std::thread::sleep(LOOK);
        }
    }

    /// Kernels are about to see `len` bytes at `p`: what is still to arrive there is put aside when
    /// it comes. What is being received there is waited for: it is on its way.
    pub fn put_arrivals_aside(self, p: u64, len: u64) -> Result<()> {
        let order = &self.state().order;
        if order.has_copies(p, len) {
            jobs(self.client, Does::Reads)?;
        }
        self.look_until(|| order.put_aside(p, len as usize));
        Ok(())
    }

    /// Work is about to be queued on `stream` that may be behind a copy whose bytes are put aside.
    #[inline]
    pub(super) fn behind_arrivals(self, stream: u32) -> Result<()> {
        match self.state().order.has_aside() {
            false => Ok(()),
            true => self.gate_behind_arrivals(stream),
        }
    }

    #[cold]
    fn gate_behind_arrivals(self, stream: u32) -> Result<()> {
        let state = self.state();
        if stream == ANY || state.captures.any() {
            // No gate stands there.
            self.look_until(|| !state.order.has_aside());
            return Ok(());
        }
        self.in_context(self.context_of(stream))
            .light_gate(stream, drop)
    }
}
