//! Occupancy of clusters.

use super::launch::attributes;
use super::prelude::*;
use super::submit::config;

pub fn clusters(w: &mut Cuda, m: msg::Clusters<'_>) -> Result<msg::ClustersReply, Fail> {
    let [gx, gy, gz, bx, by, bz, shared] = m.shape[..] else {
        return Err(WireError::BadValue("shape of a launch").into());
    };
    let mut value = 0;
    let f = w.handle(Kind::Function, m.function)? as CUfunction;
    let mut attrs = attributes(w, m.attrs)?;
    let none = std::ptr::null_mut();
    let config = config([gx, gy, gz], [bx, by, bz], shared, none, &mut attrs);
    // SAFETY: a live function; configuration and number live through the call.
    check(unsafe {
        if m.largest != 0 {
            w.cuOccupancyMaxPotentialClusterSize(&mut value, f, &config)
        } else {
            w.cuOccupancyMaxActiveClusters(&mut value, f, &config)
        }
    })?;
    Ok(msg::ClustersReply { value })
}
