//! Launches.

use crate::engine::submit;
use crate::entry::{self, api};
use crate::ffi::*;
use crate::state::event::EVENTS;
use crate::state::launch::{self, LAUNCHED, Launch};
use crate::state::stream::Flavour;
use crate::state::work::Work;
use crate::state::{capture, context, module};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const COOPERATIVE: u32 = 2;
const CLUSTER: u32 = 4;
const PROGRAMMATIC_EVENT: u32 = 7;
const COMPLETION_EVENT: u32 = 12;
const MAX_CLUSTER: u32 = 8;

/// What a driver refuses of an attribute: clusters that do not fill the grid or are too large, and
/// events that keep time.
fn check_attribute(a: &LaunchAttribute, grid: [u32; 3]) -> Res {
    match a.id {
        CLUSTER => {
            let cluster = &a.value[..3];
            let fills = (0..3).all(|i| cluster[i] > 0 && grid[i].is_multiple_of(cluster[i]));
            if fills && cluster.iter().product::<u32>() <= MAX_CLUSTER {
                Ok(())
            } else {
                Err(INVALID_CLUSTER_SIZE)
            }
        }
        PROGRAMMATIC_EVENT | COMPLETION_EVENT => {
            let handle = u64::from(a.value[1]) << 32 | u64::from(a.value[0]);
            if EVENTS.get(handle as CUevent)?.keeps_time() {
                Err(NOT_SUPPORTED)
            } else {
                Ok(())
            }
        }
        _ => Ok(()),
    }
}

unsafe fn launch(
    (stream, flavour): (CUstream, Flavour),
    function: CUfunction,
    shape: ([u32; 3], [u32; 3]),
    shared: u32,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
    (cooperative, updatable): (bool, Option<*mut LaunchAttribute>),
) -> Res {
    if function == 0 {
        return Err(INVALID_HANDLE);
    }
    let (stream, context) = submit::resolve(stream, flavour)?;
    // A kernel runs in the stream's context, a function in its own.
    let function = module::resolve_in(function, || Ok(context.clone()))?;
    entry::launch_cost();
    // SAFETY: by the caller's contract.
    let launch = unsafe { Launch::new(function, shape, shared, params, extra)? };
    if launch.function.context != context.handle {
        return Err(INVALID_HANDLE);
    }
    if cooperative {
        launch.check_cooperative()?;
    }
    if updatable.is_some() && capture::of(&stream)?.is_none() {
        return Err(INVALID_VALUE);
    }
    context.deepen(launch.function.kernel.local)?;
    LAUNCHED.fetch_add(1, Ordering::Relaxed);
    let launch = Arc::new(launch);
    submit::submit_to(&stream, &context, Work::Kernel(launch.clone()))?;
    if let Some(attribute) = updatable {
        let name = launch::make_updatable(&launch) as u64;
        // SAFETY: the caller's attribute, in which the name comes back.
        unsafe {
            (*attribute).value[2] = name as u32;
            (*attribute).value[3] = (name >> 32) as u32;
        }
    }
    Ok(())
}

api! {
    fn [cuLaunchKernel; cuLaunchKernel_ptsz] (
        function: CUfunction, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32,
        stream: CUstream, params: *mut *mut c_void, extra: *mut *mut c_void,
    ) {
        let shape = ([gx, gy, gz], [bx, by, bz]);
        launch((stream, FLAVOUR), function, shape, shared, params, extra, (false, None))
    }

    fn [cuLaunchCooperativeKernel; cuLaunchCooperativeKernel_ptsz] (
        function: CUfunction, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32,
        stream: CUstream, params: *mut *mut c_void,
    ) {
        let shape = ([gx, gy, gz], [bx, by, bz]);
        let none = std::ptr::null_mut();
        launch((stream, FLAVOUR), function, shape, shared, params, none, (true, None))
    }

    fn [cuLaunchKernelEx; cuLaunchKernelEx_ptsz] (
        config: *const LaunchConfig, function: CUfunction, params: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) {
        context::current()?;
        let c = get(config)?;
        let attributes = list(c.attrs, c.num_attrs as usize)?;
        if attributes.iter().any(|attribute| attribute.id > 15) {
            return Err(INVALID_VALUE);
        }
        for attribute in &attributes {
            check_attribute(attribute, c.grid)?;
        }
        let cooperative = attributes.iter().any(|a| a.id == COOPERATIVE && a.value[0] != 0);
        let shape = (c.grid, c.block);
        let updatable = attributes.iter().position(|a| a.id == launch::UPDATABLE);
        let how = (cooperative, updatable.map(|i| c.attrs.add(i)));
        launch((c.stream, FLAVOUR), function, shape, c.shared, params, extra, how)
    }
}
