//! Commands on their way into a queue: what they wait for, their events, and waiting for them.

use super::prelude::*;
use crate::calls::Answer;
use crate::opencl::arguments::{Events, Handles, Slot};
use crate::opencl::call::{Context, Event, Ref, decode};
use crate::opencl::state::event::Mark;
use busbar_channel::switches::Switch;
use busbar_wire::codec::Request;

/// A command that is being queued, and the event that it gives back if the program wants it.
pub struct Out<'q> {
    queue: &'q Object<Queue>,
    event: Option<Ref<Event>>,
    place: Slot<Handle>,
    /// Nothing will be able to tell when it ends, or it has ended.
    unseen: bool,
}

impl<'q> Out<'q> {
    #[inline]
    fn new(q: &'q Object<Queue>, command: u32, place: Slot<Handle>) -> Self {
        match place.is_none() {
            true => Self {
                queue: q,
                event: None,
                place,
                unseen: false,
            },
            false => Self::with_event(q, command, place),
        }
    }

    fn with_event(q: &'q Object<Queue>, command: u32, place: Slot<Handle>) -> Self {
        let event = Event {
            context: q.context.clone(),
            queue: Some(q.keep()),
            command,
            mark: Arc::new(Mark::new(CL_QUEUED)),
        };
        Self {
            queue: q,
            event: Some(Object::new(q.server, q.server.id(), event)),
            place,
            unseen: false,
        }
    }

    /// Its event's id; 0 for none.
    #[inline]
    pub fn id(&self) -> u32 {
        self.event.as_ref().map_or(0, |e| e.id)
    }

    /// The command is known to have run.
    pub fn complete(&mut self) {
        if std::mem::replace(&mut self.unseen, true) {
            return;
        }
        if let Some(e) = &self.event {
            e.mark.told(CL_COMPLETE);
        }
    }

    /// Nothing but the event can tell when the command runs; the program may have waited for it.
    pub fn unseen(&mut self, waited: bool) {
        self.unseen = true;
        self.queue.order.called_early();
        if let Some(e) = &self.event {
            e.mark.hide(waited);
        }
    }

    /// The command is queued: the program gets its event.
    #[inline]
    pub fn give(mut self) {
        let Some(e) = self.event.take() else { return };
        if !std::mem::replace(&mut self.unseen, true) {
            e.mark.numbered(self.queue.order.note());
            if e.server.told.counts() {
                ask_for_word(&e);
            }
        }
        if self.queue.profiling() && self.queue.server.profiles.load(Ordering::Relaxed) {
            self.queue.expect_times(&e);
        }
        if !self.place.is_none() {
            self.place.put(e.give());
        }
    }
}

impl Drop for Out<'_> {
    /// After the command was queued, or could not be: anyone who asks whether the queue is quiet
    /// must not think of the command as ended because of a wait that it came too late for.
    #[inline]
    fn drop(&mut self) {
        if !self.unseen {
            self.queue.order.note();
        }
    }
}

/// The ids of a wait list. Events that are known to be complete are left out.
#[inline]
fn waits(context: &Object<Context>, list: Handles<'_>) -> Result<Vec<u32>> {
    let list = list.any::<Event>(CL_INVALID_EVENT_WAIT_LIST)?;
    let mut ids = Vec::with_capacity(list.len());
    for e in list {
        let e = e.map_err(|_| CL_INVALID_EVENT_WAIT_LIST)?;
        refuse_if(!e.context.is(context), CL_INVALID_CONTEXT)?;
        if e.mark.state() != CL_COMPLETE {
            ids.push(e.id);
        }
    }
    Ok(ids)
}

/// The id of a command's event, 0 for none, and those of the events that it waits for.
pub type Links = (u32, Vec<u32>);

/// Begins a command.
#[inline]
pub fn begin<'q>(
    q: &'q Object<Queue>,
    command: u32,
    events: Events<'_>,
) -> Result<(Out<'q>, Links)> {
    let waits = waits(&q.context, events.waits)?;
    let out = Out::new(q, command, events.place);
    let event = out.id();
    Ok((out, (event, waits)))
}

/// Begins a command with an event, whether the program wants it or not.
pub fn begin_with_event<'q>(
    q: &'q Object<Queue>,
    command: u32,
    events: Events<'_>,
) -> Result<(Out<'q>, Links)> {
    let waits = waits(&q.context, events.waits)?;
    let out = Out::with_event(q, command, events.place);
    let event = out.id();
    Ok((out, (event, waits)))
}

/// Queues a command that moves nothing over the network; `make` makes its message of its event and
/// of what it waits for.
#[inline]
pub fn enqueue<'a, R: Request<'a>>(
    q: &Object<Queue>,
    command: u32,
    events: Events<'_>,
    make: impl FnOnce(u32, Vec<u32>) -> R,
) -> Result<()> {
    enqueue_or_ask(q, false, command, events, make)
}

/// The same of a command of which there may be `doubt` whether the driver takes it.
#[inline]
pub fn enqueue_or_ask<'a, R: Request<'a>>(
    q: &Object<Queue>,
    doubt: bool,
    command: u32,
    events: Events<'_>,
    make: impl FnOnce(u32, Vec<u32>) -> R,
) -> Result<()> {
    let (out, (event, waits)) = begin(q, command, events)?;
    q.server.queue_or_ask(doubt, &make(event, waits))?;
    out.give();
    Ok(())
}

/// The message of a marker, or of a barrier.
pub fn marker(q: &Object<Queue>, event: u32, waits: Vec<u32>, barrier: bool) -> wire::Marker {
    wire::Marker {
        queue: q.id,
        event,
        waits,
        barrier: barrier.into(),
    }
}

/// Queues what makes the event of a command that moves nothing, and gives the event.
pub fn nothing(
    q: &Object<Queue>,
    blocking: bool,
    (event, waits): Links,
    mut out: Out<'_>,
) -> Result<()> {
    let unseen = waits.is_empty() && unwatched(q);
    if event != 0 || !waits.is_empty() || blocking && !unseen {
        q.server.queue(&marker(q, event, waits, false))?;
    }
    if unseen {
        out.unseen(blocking);
        if blocking {
            q.server.wait_for_borrowed()?;
        }
    } else if blocking {
        wait(q)?;
        out.complete();
    }
    out.give();
    Ok(())
}

/// Whether nothing could tell when a write runs that is queued now and waits for nothing: no other
/// queue is there, and no earlier command is still to end.
pub fn unwatched(q: &Queue) -> bool {
    Switch::Idle.on() && q.alone() && q.order.quiet()
}

/// Waits for everything in a queue.
pub fn wait(q: &Object<Queue>) -> Result<()> {
    let here = q.order.here();
    let events = q.take_expected();
    let done = q.server.call(&wire::Finish {
        queue: q.id,
        profile: events.iter().map(|e| e.id).collect(),
    });
    // An answer also says that all borrowed memory is the program's again.
    q.server.borrowed.store(false, Ordering::Release);
    q.server.deferred(q.id)?;
    take_times(&events, &done?)?;
    q.order.finished(here);
    Ok(())
}

/// A command with an event is queued, of a program that waits for events: has the worker tell when
/// it has ended, if that is worth it.
#[cold]
fn ask_for_word(e: &Object<Event>) {
    let server = e.server;
    if Switch::Idle.on() && !server.profiles.load(Ordering::Relaxed) && server.told.ask() {
        e.mark.await_word(true);
        let mark = e.mark.clone();
        let told = move |a: Option<Answer>| {
            // What went wrong the worker tells whoever waits.
            if a.is_some_and(|a| a.status == CL_SUCCESS) {
                mark.told(CL_COMPLETE);
            }
            mark.await_word(false);
            server.told.gate.open();
        };
        let m = wire::WaitForEvents {
            events: vec![e.id],
            profile: Vec::new(),
        };
        // SAFETY: no bytes come with that answer.
        if unsafe { server.session.call_async(0, &m, None, told) }.is_err() {
            e.mark.await_word(false);
        }
    }
    e.mark.queued(server.session.records());
}

/// Waits for events of which the worker tells by itself. To ask would be to wait behind all that
/// was queued since.
pub fn hear_of(server: &Server, open: &[Ref<Event>]) {
    let queued = server.session.records();
    server
        .told
        .waited(open.iter().any(|e| e.mark.is_behind(queued)));
    let awaited = || open.iter().any(|e| e.mark.awaits_word());
    if awaited() {
        let op = <wire::WaitForEvents as Request<'_>>::OP;
        server
            .session
            .await_word(op, &server.told.gate, || !awaited());
    }
    for e in open.iter().filter(|e| e.mark.state() == CL_COMPLETE) {
        has_ended(e);
    }
}

/// It is known that a command has ended, and what its queue has before it.
fn has_ended(e: &Event) {
    if let Some(q) = e.queue.as_ref().filter(|q| q.in_order()) {
        q.order.reached(e.mark.number());
    }
}

/// Waits until events have come to their end.
pub fn wait_for(server: &Server, open: &[Ref<Event>]) -> Result<()> {
    let profile = match server.profiles.load(Ordering::Relaxed) {
        true => open.iter().filter(|e| e.profiled()).map(|e| e.id).collect(),
        false => Vec::new(),
    };
    let body = server.call(&wire::WaitForEvents {
        events: open.iter().map(|e| e.id).collect(),
        profile,
    })?;
    for e in open {
        // Complete user events too: they were set, or the wait would go on.
        e.mark.told(CL_COMPLETE);
        has_ended(e);
    }
    take_times(open, &body)
}

/// Keeps the times that came with an answer.
fn take_times(events: &[Ref<Event>], body: &[u8]) -> Result<()> {
    if body.is_empty() {
        return Ok(());
    }
    let reply: wire::FinishReply = decode(body)?;
    for (id, times) in reply.timed.iter().zip(reply.times.chunks_exact(5)) {
        let found = events.iter().find(|e| e.id == *id);
        if let (Some(e), Some(times)) = (found, times.first_chunk()) {
            e.mark.timed(*times);
        }
    }
    Ok(())
}
