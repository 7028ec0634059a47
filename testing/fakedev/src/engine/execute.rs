//! Runs the work of streams.
//!
//! Kernels know graphs and other kernels by the driver's own names; any other number is an illegal
//! address to them, as on a device.

use crate::ffi::*;
use crate::state::context::Context;
use crate::state::exec::EXECS;
use crate::state::kernels::Asks;
use crate::state::work::Work;
use crate::state::{context, launch, pool, watch};
use std::ffi::c_void;
use std::sync::Arc;

/// Runs work unless the context is broken; an error breaks it.
pub fn run_or_skip(work: &Work, context: &Arc<Context>, stream: CUstream) {
    match (work, context.status()) {
        // Those who wait for an event must not hang because the context broke.
        (Work::Record(_) | Work::RecordNode(_), _) => {
            let _ = run(work, context);
        }
        (Work::Callback(f, user), status) => {
            let _one = context.functions.lock().unwrap();
            // SAFETY: the program gave this function to be called once, with this argument.
            let call = || unsafe { f(stream, status.err().unwrap_or(0), *user as *mut c_void) };
            context::without_calls(call);
        }
        (Work::All(list), _) => list
            .iter()
            .for_each(|(_, work)| run_or_skip(work, context, stream)),
        (_, Ok(())) => {
            if let Err(code) = run(work, context) {
                context.poison(code);
            }
        }
        (_, Err(_)) => {}
    }
}

/// Does what must be done even though the context is gone: others may wait for an event.
pub fn give_up(work: &Work) {
    match work {
        Work::Record(record) => record.complete(),
        Work::All(list) => list.iter().for_each(|(_, work)| give_up(work)),
        _ => {}
    }
}

fn run(work: &Work, context: &Arc<Context>) -> Res {
    match work {
        Work::Kernel(launch) => answer(watch::told(work, || launch.run())?),
        Work::Copy(copy) => watch::told(work, || copy.run()),
        Work::Fill(fill) => watch::told(work, || fill.run()),
        Work::Host(call) => {
            let _one = context.functions.lock().unwrap();
            // SAFETY: the program gave this function to be called with this argument.
            context::without_calls(|| unsafe { (call.f)(call.user as *mut c_void) });
            Ok(())
        }
        Work::Record(record) => {
            record.complete();
            Ok(())
        }
        Work::Wait(record) => {
            record.wait();
            Ok(())
        }
        Work::RecordNode(event) => {
            event.latest().complete();
            Ok(())
        }
        Work::WaitNode(event) => {
            if let Some(record) = event.recorded() {
                record.wait();
            }
            Ok(())
        }
        Work::WaitValue(value) => value.wait(context),
        Work::WriteValue(value) => value.write(),
        Work::FreeAsync(address) => pool::free(*address),
        Work::Allocate(memory) => {
            memory.open(true);
            Ok(())
        }
        Work::Free(memory) => {
            memory.open(false);
            Ok(())
        }
        Work::Callback(..) | Work::All(_) | Work::Empty => Ok(()),
    }
}

/// Does what a kernel asks for. A graph runs at once, all of it: that is one of the orders in which
/// a device may do it.
fn answer(asks: Asks) -> Res {
    match asks {
        Asks::Nothing => Ok(()),
        Asks::Change(name, offset, value) => launch::change(name, offset, value),
        Asks::Start(exec) => {
            let exec = EXECS.get(exec).map_err(|_| ILLEGAL_ADDRESS)?;
            let (plan, context) = exec.on_device()?;
            run_or_skip(&Work::All(plan), &context, 0);
            Ok(())
        }
    }
}
