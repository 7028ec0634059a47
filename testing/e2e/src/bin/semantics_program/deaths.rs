//! What dies with a stream, a context, a graph, and what does not.

use super::api::{Api, at};
use std::collections::BTreeSet;

/// Whether nothing of the process captures any more: an allocation would disturb a capture.
fn nothing_captures(api: &Api) {
    let mut p = 0u64;
    api.tell("cuMemAlloc_v2", &[at(&mut p), 4096]);
    api.tell("cuMemFree_v2", &[p]);
    api.tell("cuCtxSynchronize", &[]);
}

fn capturing(api: &Api) -> u64 {
    let stream = api.made("cuStreamCreate", &[1]);
    api.tell("cuStreamBeginCapture_v2", &[stream, 0]);
    stream
}

/// Captures end with their streams, and those with their contexts.
pub fn captures(api: &Api) {
    let ctx = api.made("cuCtxCreate_v2", &[0, 0]);
    let stream = capturing(api);
    api.tell("cuStreamDestroy_v2", &[stream]);
    nothing_captures(api);
    capturing(api);
    api.tell("cuCtxDestroy_v2", &[ctx]);
    api.made("cuCtxCreate_v2", &[0, 0]);
    nothing_captures(api);
    let mut primary = 0u64;
    for _ in 0..2 {
        api.tell("cuDevicePrimaryCtxRetain", &[at(&mut primary), 0]);
        api.tell("cuCtxSetCurrent", &[primary]);
        nothing_captures(api);
        capturing(api);
        api.tell("cuDevicePrimaryCtxReset_v2", &[0]);
    }
}

/// A context's id is never another's, before or after.
pub fn ids(api: &Api) {
    let mut seen = BTreeSet::new();
    for _ in 0..5 {
        let ctx = api.made("cuCtxCreate_v2", &[0, 0]);
        let mut id = 0u64;
        api.tell("cuCtxGetId", &[ctx, at(&mut id)]);
        println!("new: {}", seen.insert(id));
        api.tell("cuCtxDestroy_v2", &[ctx]);
    }
}

/// An executable graph that is destroyed while it runs, with another context current, runs to its
/// end; and more contexts come and go than there are places for at a time.
pub fn others(api: &Api) {
    let first = api.made("cuCtxCreate_v2", &[0, 0]);
    let (spin, fill) = (api.kernel("spin"), api.kernel("fill"));
    let stream = api.made("cuStreamCreate", &[1]);
    let p = api.made("cuMemAlloc_v2", &[4096]);
    api.tell("cuStreamBeginCapture_v2", &[stream, 2]);
    println!("launch: {}", api.launch(spin, stream, &[50_000]));
    println!("launch: {}", api.launch(fill, stream, &[p, 7, 1024]));
    let (mut graph, mut exec) = (0u64, 0u64);
    api.tell("cuStreamEndCapture", &[stream, at(&mut graph)]);
    api.tell("cuGraphInstantiateWithFlags", &[at(&mut exec), graph, 0]);
    api.tell("cuGraphLaunch", &[exec, stream]);
    let second = api.made("cuCtxCreate_v2", &[0, 0]);
    api.tell("cuGraphExecDestroy", &[exec]);
    api.tell("cuGraphDestroy", &[graph]);
    api.tell("cuCtxSetCurrent", &[first]);
    api.tell("cuStreamSynchronize", &[stream]);
    let mut v = [0u32; 2];
    api.tell("cuMemcpyDtoH_v2", &[at(&mut v), p + 4088, 8]);
    println!("{v:?}");
    api.tell("cuCtxDestroy_v2", &[second]);
    let fine = (0..5000).all(|_| {
        let ctx = api.made("cuCtxCreate_v2", &[0, 0]);
        api.call("cuCtxDestroy_v2", &[ctx]) == 0
    });
    println!("5000 contexts, one after another: {fine}");
}
