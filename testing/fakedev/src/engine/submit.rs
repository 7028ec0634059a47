//! Hands work to streams.

use super::execute;
use crate::ffi::*;
use crate::state::context::{self, CONTEXTS, Context};
use crate::state::stream::{self, Flavour, STREAMS, Stream};
use crate::state::work::Work;
use crate::state::{capture, device, watch};
use std::sync::Arc;

/// The stream that a handle means, and its context in working order.
pub fn resolve(handle: CUstream, flavour: Flavour) -> R<(Arc<Stream>, Arc<Context>)> {
    let legacy = match handle {
        0 => flavour == Flavour::Legacy,
        STREAM_LEGACY => true,
        STREAM_PER_THREAD => false,
        _ => {
            device::initialized()?;
            let stream = STREAMS.get(handle)?;
            let context = CONTEXTS.get(stream.context)?;
            context.status()?;
            return Ok((stream, context));
        }
    };
    let context = context::current()?;
    Ok((context.default_stream(legacy), context))
}

/// Whether the program wants kernels to be over when their launch returns.
fn blocking() -> bool {
    std::env::var_os("CUDA_LAUNCH_BLOCKING").is_some_and(|v| v == "1")
}

/// Hands work to a stream, or to the graph that the stream is being captured into.
pub fn submit(handle: CUstream, flavour: Flavour, work: Work) -> Res {
    let (stream, context) = resolve(handle, flavour)?;
    submit_to(&stream, &context, work)
}

/// As [`submit`], with the stream at hand.
pub fn submit_to(stream: &Arc<Stream>, context: &Arc<Context>, work: Work) -> Res {
    if let Some(capture) = capture::of(stream)? {
        return capture.add(stream, work);
    }
    if work.is_refused() {
        return Err(INVALID_VALUE);
    }
    let entered = context.entered.read().unwrap();
    let mut order = context.order.lock().unwrap();
    if stream.is_legacy() {
        capture::refuse_implicit(&order)?;
    }
    let after = order.before(stream);
    let (blocks, keeps) = (work.runs_on_the_device(), context.clone());
    let place = watch::Place {
        call: watch::called(),
        device: context.device as u32,
        context: context.handle as u32,
        stream: stream.id as u32,
    };
    let context = Arc::downgrade(context);
    let (asked, of) = (work.clone(), context.clone());
    let ready = move |late| {
        of.upgrade().is_none_or(|context| {
            if late {
                context.poison(LAUNCH_TIMEOUT);
            }
            asked.is_ready(&context)
        })
    };
    let job = move |stream| match context.upgrade() {
        Some(context) => watch::at(place, || execute::run_or_skip(&work, &context, stream)),
        None => execute::give_up(&work),
    };
    stream.push(after, Box::new(ready), Box::new(job));
    drop((order, entered));
    if stream::alone() {
        stream::work_on();
    }
    match blocks && blocking() {
        true => keeps.synchronize(),
        false => Ok(()),
    }
}
