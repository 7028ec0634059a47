//! Launches and host functions.

use super::driver::capture;
use super::graph_host::attach;
use super::prelude::*;
use super::promised::Promised;
use super::state::host_node::{HostNode, host_node};
use super::state::repeats;
use super::submit::{Launch, is_queued};
use busbar_wire::promise::{MAYBE_CAPTURED, STREAM_CALLBACK};

const COOPERATIVE: u32 = 1;

/// Launches a kernel, or has that done in a lane; the attributes are then as the driver has left
/// them.
fn launch(w: &mut Cuda, m: &msg::LaunchKernel<'_>, attrs: &mut Vec<CUlaunchAttribute>) -> Result {
    // What is captured is a graph's, whose nodes have an order. And CUPTI goes by threads: what is
    // told of a mark is what this one does.
    let may =
        is_queued(&w.record) && w.turns.are_free() && w.captures.is_empty() && !w.activity.keeps();
    let lane = w.submitters.lane(w.current, m.stream, may);
    w.turns.about((m.function, m.grid, m.block));
    let stream = w.stream(m.stream)? as CUstream;
    if w.gate.is_limited() {
        w.charge_locals(m.function)?;
    }
    if !m.attrs.is_empty() || m.flags != 0 {
        *attrs = attributes(w, m.attrs)?;
        if m.flags & COOPERATIVE != 0 {
            let mut a: CUlaunchAttribute = busbar_abi::zeroed();
            a.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE as _;
            busbar_abi::set_member(&mut a.value, 1i32);
            attrs.push(a);
        }
    }
    let context = lane.map_or(0, |_| w.scope());
    let function = w.handles.function(m.function)?;
    let launch = Launch {
        function: function.raw as CUfunction,
        layout: function.layout(),
        stream,
        grid: m.grid,
        block: m.block,
        shared: m.shared,
        attrs,
        params: m.params,
    };
    if let Some(lane) = lane
        && w.submitters.put(lane, w.record, context, &launch)
    {
        return Ok(());
    }
    let (driver, pointers) = (w.driver, &mut w.pointers);
    launch.tried(driver, pointers).map_err(|why| {
        w.refuse(&why);
        why.rc
    })
}

/// A launch, of a message that has all of it but perhaps the parameters.
macro_rules! as_launch {
    ($m:ident, $params:expr) => {
        msg::LaunchKernel {
            function: $m.function,
            stream: $m.stream,
            grid: $m.grid,
            block: $m.block,
            shared: $m.shared,
            flags: $m.flags,
            attrs: $m.attrs,
            params: $params,
        }
    };
}

pub fn launch_kernel(w: &mut Cuda, m: msg::LaunchKernel<'_>) -> Result {
    launch(w, &m, &mut Vec::new())
}

pub fn launch_kept(w: &mut Cuda, m: msg::LaunchKept<'_>) -> Result<(), Fail> {
    w.kept_parameters.put(m.place, m.params)?;
    let m = as_launch!(m, m.params);
    Ok(launch(w, &m, &mut Vec::new())?)
}

/// A launch with the parameters in a place, which are taken out for the length of the call.
fn with_kept(
    w: &mut Cuda,
    place: u32,
    launch: impl FnOnce(&mut Cuda, &mut [u8]) -> Result<(), Fail>,
) -> Result<(), Fail> {
    let mut params = w.kept_parameters.take(place)?;
    let done = launch(w, &mut params);
    w.kept_parameters.put_back(place, params);
    done
}

pub fn launch_again(w: &mut Cuda, m: msg::LaunchAgain<'_>) -> Result<(), Fail> {
    with_kept(w, m.place, |w, params| {
        Ok(launch(w, &as_launch!(m, params), &mut Vec::new())?)
    })
}

pub fn launch_changed(w: &mut Cuda, m: msg::LaunchChanged<'_>) -> Result<(), Fail> {
    with_kept(w, m.place, |w, params| {
        repeats::change(params, m.changes)?;
        Ok(launch(w, &as_launch!(m, params), &mut Vec::new())?)
    })
}

pub fn launch_now(w: &mut Cuda, m: msg::LaunchNow<'_>) -> Result<msg::LaunchNowReply> {
    let m = as_launch!(m, m.params);
    let mut attrs = Vec::new();
    launch(w, &m, &mut attrs)?;
    let updatable = CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE;
    let made = attrs.iter().find(|a| a.id == updatable);
    // Whether it is, and the name.
    let node = made.map_or(0, |a| busbar_abi::member::<[u64; 2], _>(&a.value)[1]);
    Ok(msg::LaunchNowReply { node })
}

/// Launch attributes as the driver takes them: events by handle instead of by id.
pub fn attributes(w: &mut Cuda, bytes: &[u8]) -> Result<Vec<CUlaunchAttribute>> {
    let mut attrs: Vec<CUlaunchAttribute> =
        busbar_abi::items_from_bytes(bytes).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    for a in &mut attrs {
        if let CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT
        | CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT = a.id
        {
            let id: u64 = busbar_abi::member(&a.value);
            let event = w.handle(Kind::Event, id as u32)?;
            busbar_abi::set_member(&mut a.value, event);
        }
    }
    Ok(attrs)
}

unsafe extern "C" fn host_function_here(data: *mut c_void) {
    // SAFETY: made by `host_function` for this one run.
    unsafe { Box::from_raw(data.cast::<Promised>()) }.run(Default::default());
}

unsafe extern "C" fn stream_callback_here(_s: CUstream, rc: CUresult, data: *mut c_void) {
    // SAFETY: made by `host_function` for this one run.
    unsafe { Box::from_raw(data.cast::<Promised>()) }.run((rc, Default::default()));
}

/// Makes a node of a host function in the graph that its stream captures into.
fn into_graph(w: &mut Cuda, (stream, graph): (CUstream, CUgraph), promised: Promised) -> Result {
    let call = HostNode::new(Arc::new(promised));
    let data = call.data();
    attach(w, graph, vec![Box::new(call)])?;
    // SAFETY: a live stream; the function looks its data up.
    check(unsafe { w.cuLaunchHostFunc(stream, Some(host_node), data) })
}

pub fn host_function(w: &mut Cuda, m: msg::HostFunction) -> Result {
    let promised = w.promises.take(m.token, m.kind != MAYBE_CAPTURED);
    let stream = w.stream(m.stream)? as CUstream;
    if m.kind != STREAM_CALLBACK
        && let (CU_STREAM_CAPTURE_STATUS_ACTIVE, graph, _) = capture(w.driver, stream)?
    {
        return match m.kind {
            MAYBE_CAPTURED => into_graph(w, (stream, graph), promised),
            // The client did not see it coming, and has promised the function once.
            _ => Err(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
        };
    }
    let call = Box::into_raw(Box::new(promised));
    // SAFETY: a live stream; the data is what the function expects.
    check(unsafe {
        if m.kind == STREAM_CALLBACK {
            w.cuStreamAddCallback(stream, Some(stream_callback_here), call.cast(), 0)
        } else {
            w.cuLaunchHostFunc(stream, Some(host_function_here), call.cast())
        }
    })
    // SAFETY: it was not taken, so nobody else has it.
    .inspect_err(|_| drop(unsafe { Box::from_raw(call) }))
}
