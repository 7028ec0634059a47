//! Handles and addresses that are none, were some, are another session's, or of another kind: none
//! reaches the driver. The simulated driver writes down each call that it refuses, and one that got
//! such a thing would be refused.
//!
//! `BUSBAR_FUZZ=N` does N times as much; it prints how much that was.

use busbar_e2e::hostile::Raw;
use busbar_e2e::server::Options;
use busbar_harness::rng::{Rng, effort};
use busbar_wire::atomics::{Atomic, Operation};
use busbar_wire::codec::{Reader, Request, Writer};
use busbar_wire::generated::cuda::*;
use busbar_wire::record::{OP_MEMORY_ATOMIC, OP_MEMORY_IN, OP_MEMORY_OUT, OP_MEMORY_PARTS};
use std::time::Instant;

/// So many in one frame.
const AT_ONCE: usize = 500;
/// Objects of each kind that live, and as many that have lived.
const EACH: u32 = 4;
const KINDS: u32 = 6;

/// A message with these bytes in its fields.
type Forge = fn(&[u8]) -> (u16, Vec<u8>);

fn forge<M>(bytes: &[u8]) -> (u16, Vec<u8>)
where
    M: for<'a> Request<'a>,
{
    let m = M::decode(&mut Reader::new(bytes)).expect("plain numbers");
    let mut payload = Vec::new();
    m.encode(&mut Writer::new(&mut payload));
    (M::OP, payload)
}

macro_rules! forges {
    ($($name:ident)*) => { &[$(forge::<$name>),*] };
}

/// Messages of which each field that names an object is forged.
const HANDLES: &[Forge] = forges! {
    CuArray3DGetDescriptorV2 CuArrayDestroy CuArrayGetDescriptorV2 CuArrayGetMemoryRequirements
    CuArrayGetSparseProperties CuMipmappedArrayDestroy CuMipmappedArrayGetMemoryRequirements
    CuEventDestroyV2 CuEventElapsedTime CuEventQuery CuEventRecord CuEventRecordWithFlags
    CuEventSynchronize CuGraphDestroy CuGraphDestroyNode CuGraphEventRecordNodeSetEvent
    CuGraphEventWaitNodeSetEvent CuGraphExecDestroy CuGraphExecEventRecordNodeSetEvent
    CuGraphExecGetFlags CuGraphKernelNodeCopyAttributes CuGraphLaunch CuGraphNodeGetType
    CuGraphUpload CuLibraryGetKernelCount CuStreamCopyAttributes CuStreamDestroyV2
    CuStreamGetFlags CuStreamGetId CuStreamGetPriority CuStreamQuery CuStreamSynchronize
    CuStreamWaitEvent CuFuncIsLoaded CuFuncLoad CuMemPoolDestroy CuMemPoolTrimTo
    CuModuleGetFunctionCount CuTexRefDestroy CuUserObjectRelease CuUserObjectRetain
    CuGraphReleaseUserObject CuGraphRetainUserObject GraphNodes GraphEdges GraphDot GraphGetNode
    KernelFunction LibraryUnload ModuleUnload ContextDestroy ContextDestroyNow
    PoolExport IpcEventExport CuGreenCtxDestroy CuGreenCtxGetId
};
/// Gives a session objects of several kinds under ids of their own, and ends the second half of
/// each kind. What lives for sure afterwards is memory.
fn furnish(w: &mut Raw, base: u32) {
    for i in 0..2 * EACH {
        let id = |kind: u32| base + kind * 100 + i;
        let (event, stream, graph, memory) = (id(0), id(1), id(2), id(3));
        let flags = 0;
        let event = CuEventCreate {
            ph_event: event,
            flags,
        };
        let stream = CuStreamCreate {
            ph_stream: stream,
            flags,
        };
        let graph = CuGraphCreate {
            ph_graph: graph,
            flags,
        };
        let made = [
            w.call(1, &event).0,
            w.call(1, &stream).0,
            w.call(1, &graph).0,
            w.create(memory, 2 << 20),
        ];
        assert_eq!(made, [0; 4]);
        if i >= EACH {
            let (event, stream, graph) = (event.ph_event, stream.ph_stream, graph.ph_graph);
            w.queue(1, &CuEventDestroyV2 { h_event: event });
            w.queue(1, &CuStreamDestroyV2 { h_stream: stream });
            w.queue(1, &CuGraphDestroy { h_graph: graph });
            w.give_up(memory);
        }
    }
}

const OURS: u32 = 10_000;
const THEIRS: u32 = 20_000;

/// A handle that is none of this session's, or not of a kind that it is used for.
fn handle(rng: &mut Rng) -> u32 {
    let nth = |rng: &mut Rng, n: u32| (rng.next_u64() % u64::from(n)) as u32;
    match nth(rng, 5) {
        0 => OURS + 100 * nth(rng, KINDS) + EACH + nth(rng, EACH),
        1 => THEIRS + 100 * nth(rng, KINDS) + nth(rng, EACH),
        // Memory, which no message here is about.
        2 => OURS + 300 + nth(rng, EACH),
        3 => OURS + 1000 + nth(rng, 1 << 20),
        _ => u32::MAX - nth(rng, 1 << 16),
    }
}

/// An address where no session puts device memory.
fn address(rng: &mut Rng) -> u64 {
    loop {
        let low = rng.next_u64();
        let va = match low % 5 {
            // Null means nothing anywhere, and may.
            0 => 4 + low % (1 << 16),
            // Programs, their heaps, libraries and stacks.
            1 => 0x5500_0000_0000 + low % (1 << 40),
            2 => 0x7f00_0000_0000 + low % (1 << 40),
            3 => 0xffff_8000_0000_0000 | low,
            _ => low,
        };
        if contract::number(va).is_none() {
            return va;
        }
    }
}

fn encoded<'a, M: Request<'a>>(m: &M) -> (u16, Vec<u8>) {
    let mut payload = Vec::new();
    m.encode(&mut Writer::new(&mut payload));
    (M::OP, payload)
}

fn with_handles(rng: &mut Rng) -> (u16, Vec<u8>) {
    let bytes: Vec<u8> = (0..64).flat_map(|_| handle(rng).to_le_bytes()).collect();
    HANDLES[rng.next_u64() as usize % HANDLES.len()](&bytes)
}

/// Bytes and words of device memory, ahead of the queue.
fn ahead(rng: &mut Rng) -> (u16, Vec<u8>) {
    let (va, n) = (address(rng), 1 + rng.next_u64() % 4096);
    let mut payload = va.to_le_bytes().to_vec();
    match rng.next_u64() % 4 {
        0 => payload.resize(8 + n as usize, 7),
        1 => {
            payload.extend(n.to_le_bytes());
            return (OP_MEMORY_OUT, payload);
        }
        2 => {
            // The first and the last of eight bytes.
            payload.extend([8, 0, 0, 0, 0x81, 7, 7]);
            return (OP_MEMORY_PARTS, payload);
        }
        _ => {
            let width = 1 << (n % 4);
            let atomic = Atomic {
                at: va & !(u64::from(width) - 1),
                width,
                operation: Operation::Exchange,
                operand: 7,
                expected: 0,
            };
            payload.clear();
            atomic.encode(&mut payload);
            return (OP_MEMORY_ATOMIC, payload);
        }
    }
    (OP_MEMORY_IN, payload)
}

/// In the default stream, which there is.
fn with_addresses(rng: &mut Rng) -> (u16, Vec<u8>) {
    let (va, n) = (address(rng), 1 + rng.next_u64() % 4096);
    let (h_stream, stream, value, flags) = (0, 0, 7, 0);
    match rng.next_u64() % 6 {
        0 => encoded(&CuMemsetD8Async {
            dst_device: va,
            uc: 7,
            n,
            h_stream,
        }),
        1 => encoded(&CuMemsetD32Async {
            dst_device: va & !3,
            ui: 7,
            n,
            h_stream,
        }),
        2 => encoded(&CuMemcpyDtoDAsyncV2 {
            dst_device: va,
            src_device: address(rng),
            byte_count: n,
            h_stream,
        }),
        3 => encoded(&CuStreamWaitValue32V2 {
            stream,
            addr: va,
            value,
            flags,
        }),
        4 => encoded(&CuStreamWriteValue32V2 {
            stream,
            addr: va,
            value,
            flags,
        }),
        _ => encoded(&PoolFree { va, stream }),
    }
}

#[test]
fn nothing_forged_reaches_the_driver() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = folder.path().join("refused");
    std::fs::write(&refused, "").expect("a file");
    let server = Options::default()
        .arg("--isolation", "off")
        .env("FAKEDEV_REFUSED", &refused.display().to_string())
        .start();
    let text = || std::fs::read_to_string(&refused).expect("it is there");
    let (mut ours, mut theirs) = (Raw::open(&server.address), Raw::open(&server.address));
    furnish(&mut ours, OURS);
    furnish(&mut theirs, THEIRS);
    // The driver's word is heard: here it gets one that it refuses.
    let prefer = CuCtxSetCacheConfig { config: 77 };
    assert_ne!(ours.call(1, &prefer).0, 0);
    assert!(text().contains("cuCtxSetCacheConfig"), "{}", text());
    let before = text();
    let (all, begin) = (effort(10_000), Instant::now());
    let mut rng = Rng::new(all);
    let mut done = 0;
    while done < all {
        let one = |_| {
            let (op, payload) = match rng.next_u64() % 4 {
                0 => with_addresses(&mut rng),
                1 => ahead(&mut rng),
                _ => with_handles(&mut rng),
            };
            (op, 1, payload)
        };
        let calls: Vec<_> = (0..AT_ONCE).map(one).collect();
        let said = ours.statuses(&calls).expect("the session goes on");
        for (call, status) in calls.iter().zip(said) {
            assert_ne!(status, 0, "operation {:#x} with {:?}", call.0, call.2);
        }
        done += AT_ONCE as u64;
    }
    assert_eq!(text(), before, "the driver was asked");
    println!(
        "{done} forged, none reached the driver, {:?}",
        begin.elapsed()
    );
    // Nobody has lost anything.
    let event = THEIRS;
    assert_eq!(theirs.call(1, &CuEventQuery { h_event: event }).0, 0);
    assert_eq!(ours.call(1, &CuEventQuery { h_event: OURS }).0, 0);
}
