//! What devices did, for profilers.

use super::cupti::now;
use super::prelude::*;

pub fn activity_keep(w: &mut Cuda, m: msg::ActivityKeep) -> Result<Always<Encoded>> {
    let (rc, version, why) = match w.activity.keep(m.kinds) {
        Ok(version) => (CUDA_SUCCESS, version, String::new()),
        Err(why) => (CUDA_ERROR_NOT_SUPPORTED, 0, why),
    };
    let why = why.as_bytes();
    let reply = Encoded::of(&msg::ActivityKeepReply { version, why });
    Ok(Always(rc, reply))
}

pub fn activity_clock(_w: &mut Cuda, _m: msg::ActivityClock) -> Result<msg::ActivityClockReply> {
    Ok(msg::ActivityClockReply { now: now() })
}

pub fn activity_take(w: &mut Cuda, m: msg::ActivityTake) -> Result<Encoded> {
    let taken = w.activity.take(m.flush != 0, m.forced != 0, &w.devices);
    Ok(Encoded::of(&msg::ActivityTakeReply {
        more: taken.more.into(),
        dropped: taken.dropped,
        records: &taken.records,
        names: &taken.names,
    }))
}
