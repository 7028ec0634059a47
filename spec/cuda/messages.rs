//! Messages of hand-written functions, whose shape no C signature gives.

/// A kernel launch. `attrs` and `params` are packed by the client.
#[id(0x8001)] #[message] #[queued] #[family(launch)] #[todo]
fn LaunchKernel(
    function: u32,
    stream: u32,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    flags: u32,
    attrs: Bytes,
    params: Bytes,
);
