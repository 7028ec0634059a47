//! Occupancy of clusters.

use super::launch::{attributes, config};
use super::{Cuda, attempt, check};
use busbar_abi::cuda::*;
use busbar_wire::WireError;
use busbar_wire::codec::Message;
use busbar_wire::generated::cuda::{self as msg, Kind};
use busbar_wire::record::Header;

pub(super) fn clusters(w: &mut Cuda, h: &Header, m: msg::Clusters<'_>) -> Result<(), WireError> {
    let [gx, gy, gz, bx, by, bz, shared] = m.shape[..] else {
        return Err(WireError::BadValue("shape of a launch"));
    };
    let mut value = 0;
    let rc = attempt(|| {
        let f = w.handle(Kind::Function, m.function)? as CUfunction;
        let mut attrs = attributes(w, m.attrs)?;
        let none = std::ptr::null_mut();
        let config = config([gx, gy, gz], [bx, by, bz], shared, none, &mut attrs);
        // SAFETY: a live function; configuration and number live through the call.
        check(unsafe {
            if m.largest != 0 {
                w.driver
                    .cuOccupancyMaxPotentialClusterSize(&mut value, f, &config)
            } else {
                w.driver
                    .cuOccupancyMaxActiveClusters(&mut value, f, &config)
            }
        })
    });
    w.reply(h, rc, |wr| msg::ClustersReply { value }.encode(wr));
    Ok(())
}
