//! Records on their way to workers: a call alone, or the parts of a group.

use super::life::{Cx, fail};
use busbar_abi::nccl::*;
use busbar_wire::generated::collectives::op;
use busbar_wire::limits::MAX_BYTES;
use busbar_wire::record::{HEADER, Header};

/// Records for one server, and the call that was the first of them.
pub type Part = (Cx, Vec<u8>);

/// A call as it stands in a group.
pub fn record(cx: Cx, op: u16, body: &[u8]) -> Vec<u8> {
    let header = Header {
        len: (body.len() + HEADER) as u32,
        op,
        api: 0,
        call: 0,
        aux: cx.scope(),
    };
    [&header.to_bytes()[..], body].concat()
}

/// Adds records to those for the same server.
pub fn add(parts: &mut Vec<Part>, cx: Cx, records: &[u8]) {
    match parts.iter_mut().find(|p| p.0.at.server == cx.at.server) {
        Some((_, known)) => known.extend_from_slice(records),
        None => parts.push((cx, records.into())),
    }
}

/// Sends a call alone. What takes long is in progress, or is waited for.
pub fn send(cx: Cx, op: u16, body: &[u8], (slow, blocking): (bool, bool)) -> Result {
    if blocking {
        return cx.call(op, body);
    }
    cx.queue(op, body)?;
    refuse_if(slow, ncclInProgress)
}

/// Sends the parts of a group that waits for nobody.
pub fn send_queued(parts: &[Part]) -> Result {
    let long = parts.iter().any(|(_, records)| records.len() > MAX_BYTES);
    match long {
        true => Err(too_long()),
        false => send_all(parts, (false, false)),
    }
}

pub fn too_long() -> ncclResult_t {
    fail(ncclInvalidUsage, "a group of more than 8 MiB of calls")
}

/// Sends the parts of a group. Those that wait for each other wait at once.
pub fn send_all(parts: &[Part], flags: (bool, bool)) -> Result {
    let send = |(cx, records): &Part| send(*cx, op::GROUP, records, flags);
    let (_, blocking) = flags;
    match parts {
        [] => Ok(()),
        [one] => send(one),
        all if !blocking => {
            let sent: Vec<_> = all.iter().map(send).collect();
            worst(sent)
        }
        [one, others @ ..] => std::thread::scope(|s| {
            let begun: Vec<_> = others.iter().map(|part| s.spawn(|| send(part))).collect();
            let mut sent = vec![send(one)];
            sent.extend(
                begun
                    .into_iter()
                    .map(|t| t.join().unwrap_or(Err(ncclInternalError))),
            );
            worst(sent)
        }),
    }
}

/// What has become of all: the first failure, or that one is in progress.
fn worst(all: Vec<Result>) -> Result {
    let failed = |r: &&Result| r.is_err_and(|rc| rc != ncclInProgress);
    let found = all.iter().find(failed);
    let found = found.or_else(|| all.iter().find(|r| r.is_err()));
    found.copied().unwrap_or(Ok(()))
}
