//! Memory that was freed in stream order and is kept for the next allocation: the worker hears of
//! it in time.

use super::cx::Cx;
use crate::cuda::state::recycled::{Home, Outcome};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, op};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// What a call that is waited for depends on. Those that only lack memory are made again, with all
/// there is.
const fn outcome(op: u16) -> Outcome {
    match op {
        // One for which nothing fits: the driver may make its memory of what was freed.
        op::POOL_ALLOC
        | op::CU_MEM_GET_INFO_V2
        | op::CU_MEM_POOL_TRIM_TO
        | op::CU_DEVICE_SET_MEM_POOL
        | op::POOL_CREATE
        | op::POOL_ATTRIBUTE
        | op::POOL_SET_ATTRIBUTE
        | op::CU_DEVICE_GRAPH_MEM_TRIM
        | op::GRAPH_MEM_ATTRIBUTE
        // A free that comes later would be part of what is captured.
        | op::CU_STREAM_BEGIN_CAPTURE_V2
        | op::CAPTURE_TO_GRAPH => Outcome::OfMemory,
        op if ends(op) => Outcome::OfMemory,
        _ => Outcome::OfWaiting,
    }
}

/// Whether a call ends a stream or a pool, after which nothing of it can be freed in stream order.
const fn ends(op: u16) -> bool {
    matches!(
        op,
        op::CU_STREAM_DESTROY_V2
            | op::CU_MEM_POOL_DESTROY
            | op::CU_GREEN_CTX_DESTROY
            | op::CONTEXT_DESTROY
            | op::CONTEXT_DESTROY_NOW
            | op::PRIMARY_RELEASE
            | op::PRIMARY_RELEASE_NOW
    )
}

/// Whether a call tells how much memory there is.
const fn tells(op: u16) -> bool {
    matches!(
        op,
        op::CU_MEM_GET_INFO_V2 | op::POOL_ATTRIBUTE | op::CU_MEM_POOL_TRIM_TO
    )
}

/// How long a call that tells how much memory there is waits for frees that the program may have
/// waited for, and the worker hears of only now. A stream that is done is done with them at once.
const LATE: Duration = Duration::from_millis(2);

impl Cx {
    /// A call is about to be made and waited for.
    #[inline]
    pub(super) fn recycle_before_waiting(self, op: u16) {
        if self.state().recycled.any() {
            let gone = self.give_back(outcome(op));
            if tells(op) {
                self.settle_late(&gone);
            }
        }
    }

    /// A call is about to be queued.
    #[inline]
    pub(super) fn recycle_before(self, op: u16) {
        if ends(op) && self.state().recycled.any() {
            self.give_back(Outcome::OfMemory);
        }
    }

    /// Tells the worker of memory that is free, unless it stays for the next allocation.
    #[cold]
    pub(super) fn give_back(self, before: Outcome) -> Vec<Home> {
        let tell = |home: &Home, va| {
            let stream = home.stream;
            // Without a session there is nobody left to tell.
            let free = msg::PoolFree { va, stream };
            let _ = self.client.session.queue(home.scope, &free);
        };
        self.state().recycled.give_back(before, tell)
    }

    #[cold]
    fn settle_late(self, gone: &[Home]) {
        let streams: BTreeSet<_> = gone.iter().map(|h| (h.scope, h.stream)).collect();
        let end = Instant::now() + LATE;
        for (scope, h_stream) in streams {
            let question = msg::CuStreamQuery { h_stream };
            let is_busy = || {
                let answer = self.client.session.call(scope, &question, None);
                answer.is_ok_and(|a| a.status == CUDA_ERROR_NOT_READY)
            };
            while is_busy() {
                if Instant::now() > end {
                    return;
                }
            }
            // A driver takes such memory back to its device only when it was waited for.
            let wait = msg::CuStreamSynchronize { h_stream };
            let _ = self.client.session.call(scope, &wait, None);
        }
    }
}
