//! Streams that come to gates, and go on.

use super::cx::Cx;
use super::gates::{Closed, Gate};
use super::jobs::{Does, jobs};
use crate::cuda::state::promised::Promised;
use crate::prelude::*;
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda as msg;
use busbar_wire::record::OP_CALLBACK_DONE;

/// Lets a stream go on, when it is dropped.
pub struct GoOn(Cx, u32, #[expect(dead_code)] Option<Closed>);

impl Drop for GoOn {
    fn drop(&mut self) {
        self.0.tell_done(self.1);
    }
}

impl Cx {
    /// A stream goes no further until it is let go on. When it has come so far, `reached` is run on
    /// a thread that others wait for, and told how to let it go on. Should the stream die before,
    /// it is dropped. Until it is open, calls that may stop a driver are not made.
    pub fn gate(self, stream: u32, reached: impl FnOnce(GoOn) + Send + 'static) -> Result<()> {
        self.gate_with(stream, Some(self.client.gates.close()), reached)
    }

    /// As [`Cx::gate`], for one that opens without a call of the driver's.
    pub fn light_gate(
        self,
        stream: u32,
        reached: impl FnOnce(GoOn) + Send + 'static,
    ) -> Result<()> {
        self.gate_with(stream, None, reached)
    }

    fn gate_with(
        self,
        stream: u32,
        closed: Option<Closed>,
        reached: impl FnOnce(GoOn) + Send + 'static,
    ) -> Result<()> {
        jobs(self.client, Does::Reads)?;
        let state = self.state();
        let number = self.queued();
        let open: Gate = Box::new(move |call| reached(GoOn(self, call, closed)));
        let mut gates = lock(&self.client.gates.ahead);
        let number = (number..)
            .find(|n| !gates.contains_key(n))
            .unwrap_or(number);
        gates.insert(number, open);
        drop(gates);
        let token = state.promises.once(&state.order, Promised::Gate(number));
        let sent = self.send(&msg::StreamGate { stream, token });
        self.client.session.flush();
        sent.inspect_err(|_| {
            // It never came to be known to the worker.
            let _ = state.promises.take(&state.order, token);
            lock(&self.client.gates.ahead).remove(&number);
        })
    }

    /// The worker hears that what it asked for is done.
    pub fn tell_done(self, call: u32) {
        let done = |out: &mut Vec<u8>| out.extend_from_slice(&call.to_le_bytes());
        let session = &self.client.session;
        let _ = session.queue_raw(OP_CALLBACK_DONE, 0, done);
        session.flush();
    }
}
