//! How a call gets to the worker, and its answer back.

use super::cx::{Cx, ReplyBytes, decode};
use super::freed;
use super::gates::{Pass, stops};
use super::host::Sending;
use super::thread;
use crate::calls::Answer;
use crate::cuda::state::area::ANY;
use crate::cuda::state::order::{ALL_STREAMS, is_fill, is_work};
use crate::cuda::state::recycled::Outcome;
use crate::cuda::state::shadows::Touch;
use busbar_abi::cuda::*;
use busbar_channel::Bulk;
use busbar_channel::gate::Gate;
use busbar_channel::switches::Switch;
use busbar_wire::codec::{Asks, Request};
use busbar_wire::generated::cuda::{self as msg, op};
use std::sync::Arc;

/// Whether a queued call makes something in the current context, which must be there.
const fn needs_context(op: u16) -> bool {
    matches!(
        op,
        op::CU_STREAM_CREATE | op::CU_STREAM_CREATE_WITH_PRIORITY | op::CU_EVENT_CREATE
    )
}

/// Whether a call reports what went wrong before it. Any other must not: what it has made would be
/// lost with its own result.
fn reports(op: u16) -> bool {
    matches!(
        op,
        op::CU_STREAM_SYNCHRONIZE
            | op::CU_STREAM_QUERY
            | op::CU_EVENT_SYNCHRONIZE
            | op::CU_EVENT_QUERY
            | op::CONTEXT_SYNCHRONIZE
            | op::COPY_OUT
            | op::COPY_OUT_ROWS
    )
}

/// Whether a queued call becomes a node of any capture: fills, copies, functions, records of
/// events.
const fn is_node(op: u16) -> bool {
    is_fill(op)
        || matches!(
            op,
            op::COPY_ROWS_ON_DEVICE | op::HOST_FUNCTION | op::CU_EVENT_RECORD
        )
}

impl Cx {
    /// Whether nothing has been queued since a waiting call has seen this stream idle.
    #[inline]
    pub fn idle(self, stream: u32) -> bool {
        let state = self.state();
        let alone = || {
            state
                .handles
                .at_most(busbar_wire::generated::cuda::Kind::Stream, 0)
        };
        state.order.idle(self.scope, stream, self.queued(), alone)
            && !state.contexts.has_deferred(self.scope)
            && Switch::Idle.on()
    }

    /// A waiting call has seen this stream idle. `since` is [`Cx::queued`] from before that call.
    pub fn now_idle(self, stream: u32, since: u64) {
        self.state().order.now_idle(self.scope, stream, since);
    }

    /// Waits for a stream, or for all of the context's.
    pub fn synchronize(self, stream: u32) -> Result<(), CUresult> {
        let (since, mark) = (self.queued(), self.state().shadows.mark());
        let all = stream == ALL_STREAMS;
        if !self.idle(stream) {
            let context = self.scope;
            if all {
                self.call(&msg::ContextSynchronize { context })?;
            } else {
                self.call(&msg::CuStreamSynchronize { h_stream: stream })?;
            }
            self.now_idle(stream, since);
        }
        self.waited(self.scope, Some(stream).filter(|_| !all), mark);
        Ok(())
    }

    /// Makes a call as its line of the spec says. It is queued, and its failure, if any, shows at a
    /// later call, as CUDA's asynchronous errors do; or, where the driver may well refuse it, its
    /// result is waited for.
    #[inline]
    pub fn send<'a, R: Request<'a>>(self, r: &R) -> Result<(), CUresult> {
        self.send_to(r, Touch::All)
    }

    /// As [`Cx::send`], where it is known what of memory that is in doubt the work may write.
    #[inline]
    pub fn send_to<'a, R: Request<'a>>(self, r: &R, touch: Touch<'_>) -> Result<(), CUresult> {
        let _sending = self.before(r, touch)?;
        if !r.queued()
            || r.on_stream()
                .is_some_and(|s| self.captures_refuse(s, R::OP))
        {
            return self.call(r).map(drop);
        }
        if self.scope == 0 && needs_context(R::OP) {
            return Err(CUDA_ERROR_INVALID_CONTEXT);
        }
        self.recycle_before(R::OP);
        let _pass = self.pass(stops(R::OP));
        let sent = self.client.session.queue(self.scope, r);
        let queued = sent.and_then(|()| self.queued_one());
        queued.or_else(|_| self.lost())
    }

    /// What the program has written goes ahead of a call that puts work into a stream.
    #[inline]
    fn before<'a, R: Request<'a>>(self, r: &R, touch: Touch<'_>) -> Result<Sending> {
        match is_work(R::OP) {
            true => self.work_if_shadowed(r.on_stream().unwrap_or(ANY), touch),
            false => Ok(Sending::default()),
        }
    }

    /// Before a call that may stop a driver: waits until no stream of the session's stands still at
    /// a gate. Where there is one server, none ever does.
    #[inline]
    pub fn pass(self, stops: bool) -> Option<Pass<'static>> {
        let lost = || self.client.session.closed().is_some();
        (stops && self.client.many).then(|| self.client.gates.pass(lost))
    }

    /// As [`Cx::send`] where the driver has nothing to refuse, as far as is known here. Else the
    /// program hears at the call, as natively.
    #[inline]
    pub fn send_if<'a, R: Request<'a>>(
        self,
        usual: bool,
        r: &R,
        touch: Touch<'_>,
    ) -> Result<(), CUresult> {
        if usual {
            return self.send_to(r, touch);
        }
        let _sending = self.before(r, touch)?;
        self.call(r).map(drop)
    }

    /// Whether the driver may refuse what is queued on a stream for a capture's sake, even a
    /// kernel: a capture may be void, or the legacy stream would wait for it. Then the answer is
    /// waited for.
    #[inline]
    pub fn captures_mind(self, stream: u32) -> bool {
        let captures = &self.state().captures;
        captures.any() && (stream == 0 || captures.in_doubt())
    }

    /// The same of any call that is queued: of many a one no node can be made, or not of this one.
    #[inline]
    fn captures_refuse(self, stream: u32, op: u16) -> bool {
        self.state().captures.any() && (!is_node(op) || self.captures_mind(stream))
    }

    /// Asks the worker something harmless and waits for the answer: what a call costs that the
    /// client could have answered.
    #[cold]
    pub fn ask(self) -> Result<(), CUresult> {
        let attrib = CU_DEVICE_ATTRIBUTE_WARP_SIZE;
        let question = msg::CuDeviceGetAttribute { attrib, dev: 0 };
        let answer = self.client.session.call(0, &question, None);
        answer.map(drop).or_else(|_| self.lost())
    }

    /// Queues a call that ends in bulk bytes.
    pub fn send_bulk<'a, R: Request<'a>>(self, r: &R, bulk: Bulk<'_>) -> Result<(), CUresult> {
        let _sending = self.before(r, Touch::All)?;
        let _pass = self.pass(stops(R::OP));
        let sent = self.client.session.queue_bulk(self.scope, r, bulk);
        let queued = sent.and_then(|()| self.queued_one());
        queued.or_else(|_| self.lost())
    }

    /// Makes a call and waits for its answer.
    pub fn call<'a, R: Request<'a>>(self, r: &R) -> Result<ReplyBytes, CUresult> {
        self.call_into(r, None)
    }

    /// Makes a call and reads its reply.
    pub fn reply_to<'a, R: Asks<'a>>(self, r: &R) -> Result<R::Reply, CUresult> {
        decode(&self.call(r)?)
    }

    /// Makes a call whose bulk answer goes to `place`, and waits for it.
    pub fn call_into<'a, R: Request<'a>>(
        self,
        r: &R,
        place: Option<(*mut u8, usize)>,
    ) -> Result<ReplyBytes, CUresult> {
        if R::OP == op::CU_MEM_GET_INFO_V2 {
            freed::wait(self);
        }
        let answer = self.answer(r, place)?;
        if reports(R::OP) {
            self.state().output.wait_until_written();
        }
        if answer.status != CUDA_SUCCESS {
            self.state().captures.spoils(answer.status);
            return Err(answer.status);
        }
        if reports(R::OP) {
            self.state().contexts.deferred(self.scope)?;
        }
        Ok(ReplyBytes(answer.body.into()))
    }

    /// Makes a call whose reply counts whatever its result: result and reply.
    pub fn call_any<'a, R: Request<'a>>(self, r: &R) -> Result<(CUresult, Vec<u8>), CUresult> {
        self.answer(r, None).map(|a| (a.status, a.body))
    }

    /// The worker's answer to a call, whatever its result.
    fn answer<'a, R: Request<'a>>(
        self,
        r: &R,
        place: Option<(*mut u8, usize)>,
    ) -> Result<Answer, CUresult> {
        let call = || {
            let _pass = self.pass(stops(R::OP));
            let answer = self.client.session.call(self.scope, r, place);
            answer.or_else(|_| self.lost())
        };
        self.recycle_before_waiting(R::OP);
        // It may all be free by the time of the answer, and was not when the worker looked.
        let owed = self.state().spaces.owes();
        let answer = call()?;
        // Memory that is being freed may be what is missing.
        if answer.status == CUDA_ERROR_OUT_OF_MEMORY
            && (!self.give_back(Outcome::OfMemory).is_empty() | freed::wait(self) || owed)
        {
            return call();
        }
        if answer.status != CUDA_SUCCESS {
            thread::set_answered(answer.status);
        }
        Ok(answer)
    }

    /// Waits at a gate for what the worker tells by itself, in the place of a call that waits.
    pub fn await_word(self, op: u16, (gate, told): (&Gate, impl Fn() -> bool)) {
        self.recycle_before_waiting(op);
        self.client.session.await_word(op, gate, told);
    }

    /// Makes a call whose answer is always the same, once; later the client answers.
    pub fn cached<'a, R: Request<'a>>(self, r: &R) -> Result<ReplyBytes, CUresult> {
        let answers = &self.client.answers;
        let key = self.key(r);
        if let Some(known) = answers.get(&key)
            && Switch::Local.on()
        {
            return Ok(ReplyBytes(known));
        }
        let mark = answers.mark();
        let answer = self.call(r)?;
        answers.keep(key, Arc::clone(&answer.0), mark);
        Ok(answer)
    }

    fn key<'a, R: Request<'a>>(self, r: &R) -> Vec<u8> {
        let mut key = Vec::with_capacity(64);
        key.extend_from_slice(&self.scope.to_le_bytes());
        key.extend_from_slice(&R::OP.to_le_bytes());
        r.encode(&mut busbar_wire::Writer::new(&mut key));
        key
    }

    /// Forgets a cached answer: something has changed it.
    pub fn forget<'a, R: Request<'a>>(self, r: &R) {
        self.client.answers.forget(&self.key(r));
    }
}
