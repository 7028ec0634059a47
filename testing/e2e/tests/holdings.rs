//! What a session holds, as its server says: objects by kind, and device memory by kind, each byte
//! of which is given back with what it was taken for.

use busbar_e2e::driver::IMAGE;
use busbar_e2e::hostile::Raw;
use busbar_e2e::server::{Options, Server};
use busbar_e2e::tree::{clear, tree};
use busbar_e2e::until;
use busbar_wire::codec::{Message, Reader, Request};
use busbar_wire::generated::cuda::contract::{HOST, MANAGED, RANGE, SHARED, WINDOW, span};
use busbar_wire::generated::cuda::*;
use serde_json::Value;
use std::process::Command;

const MIB: u64 = 1 << 20;

/// What the server's one session holds.
fn holding(server: &Server) -> Value {
    let sessions = server.wait_for_sessions(1);
    sessions[0].clone()
}

/// Bytes of one kind, and pieces.
fn memory(server: &Server, kind: &str) -> (u64, u64) {
    let m = &holding(server)["memory"][kind];
    let number = |name: &str| m[name].as_u64().unwrap_or(0);
    (number("bytes"), number("pieces"))
}

fn objects(server: &Server, kind: &str) -> u64 {
    holding(server)["objects"][kind].as_u64().unwrap_or(0)
}

fn done<'a, R: Request<'a>>(w: &mut Raw, m: &R) -> Vec<u8> {
    let (rc, reply) = w.call(1, m);
    assert_eq!(rc, 0, "{}", R::NAME);
    reply
}

/// Waits until what was queued has been executed.
fn settle(w: &mut Raw) {
    assert_eq!(w.call(0, &OpenCuda {}).0, 0);
}

/// A description of an array: width, height, format (an unsigned byte) and channels.
fn shape(width: u64, height: u64, channels: u32) -> [u8; 24] {
    let mut d = [0; 24];
    d[..8].copy_from_slice(&width.to_le_bytes());
    d[8..16].copy_from_slice(&height.to_le_bytes());
    d[16..20].copy_from_slice(&1u32.to_le_bytes());
    d[20..].copy_from_slice(&channels.to_le_bytes());
    d
}

/// Properties of memory pinned on a device, which no process shares.
fn pinned() -> Vec<u8> {
    let mut p = vec![0; 32];
    p[..4].copy_from_slice(&1u32.to_le_bytes());
    p[8..12].copy_from_slice(&1u32.to_le_bytes());
    p
}

#[test]
fn every_byte_of_device_memory_is_counted_until_it_is_given_back() {
    let server = Server::start();
    let mut w = Raw::open(&server.address);
    let context = memory(&server, "context");
    assert!(context.0 > MIB && context.1 == 1, "{context:?}");

    // Memory at addresses of the client's.
    let (a, b) = (span(0).start, span(MANAGED).start);
    done(
        &mut w,
        &MemMapAt {
            va: a,
            size: 4 * MIB,
            device: 0,
        },
    );
    done(
        &mut w,
        &MemMapAt {
            va: a + 4 * MIB,
            size: 2 * MIB,
            device: 0,
        },
    );
    done(
        &mut w,
        &MemMapAt {
            va: b,
            size: 2 * MIB,
            device: 0,
        },
    );
    assert_eq!(memory(&server, "linear"), (6 * MIB, 2));
    assert_eq!(memory(&server, "managed"), (2 * MIB, 1));
    // What is refused takes nothing.
    let again = MemMapAt {
        va: a,
        size: 2 * MIB,
        device: 0,
    };
    assert_ne!(w.call(1, &again).0, 0);
    let outside = MemMapAt {
        va: RANGE / 2,
        size: 2 * MIB,
        device: 0,
    };
    assert_ne!(w.call(1, &outside).0, 0);
    assert_eq!(memory(&server, "linear"), (6 * MIB, 2));
    for (va, size) in [(a, 4 * MIB), (a + 4 * MIB, 2 * MIB), (b, 2 * MIB)] {
        done(&mut w, &MemRetire { va, size });
    }
    assert_eq!(
        (memory(&server, "linear"), memory(&server, "managed")),
        ((0, 0), (0, 0))
    );
    let most = &holding(&server)["memory"]["linear"]["most"];
    assert_eq!(most.as_u64(), Some(6 * MIB));

    // Memory that the program maps itself lives as long as it is mapped.
    let size = 2 * MIB;
    done(
        &mut w,
        &VmmCreate {
            allocation: 1,
            size,
            props: &pinned(),
        },
    );
    w.queue(
        1,
        &VmmMap {
            va: a,
            size,
            offset: 0,
            allocation: 1,
        },
    );
    w.queue(1, &VmmRelease { allocation: 1 });
    settle(&mut w);
    assert_eq!(memory(&server, "physical"), (size, 1));
    w.queue(1, &VmmUnmap { va: a, size });
    settle(&mut w);
    assert_eq!(memory(&server, "physical"), (0, 0));

    // Pools.
    let alloc = |w: &mut Raw| {
        let reply = done(
            w,
            &PoolAlloc {
                pool: 0,
                size: 1000,
                stream: 0,
            },
        );
        PoolAllocReply::decode(&mut Reader::new(&reply))
            .expect("a reply")
            .va
    };
    let (p, q) = (alloc(&mut w), alloc(&mut w));
    assert_eq!(memory(&server, "pool"), (2000, 2));
    w.queue(1, &PoolFree { va: p, stream: 0 });
    done(&mut w, &PoolFreeNow { va: q });
    assert_eq!(memory(&server, "pool"), (0, 0));

    // What a pool keeps, the driver says.
    let pool = PoolOfDevice {
        device: 0,
        default: 1,
    };
    let reply = done(&mut w, &pool);
    let reply = PoolOfDeviceReply::decode(&mut Reader::new(&reply)).expect("a reply");
    let pool = reply.pool;
    let (attribute, value) = (4, 1 << 30);
    let threshold = PoolSetAttribute {
        pool,
        attribute,
        value,
    };
    done(&mut w, &threshold);
    assert_eq!(memory(&server, "kept"), (0, 0));
    let va = alloc(&mut w);
    done(&mut w, &PoolFreeNow { va });
    assert_eq!(
        (memory(&server, "pool"), memory(&server, "kept")),
        ((0, 0), (1000, 1))
    );
    let trim = |min_bytes_to_keep| CuMemPoolTrimTo {
        pool,
        min_bytes_to_keep,
    };
    done(&mut w, &trim(600));
    assert_eq!(memory(&server, "kept"), (600, 1));
    done(&mut w, &trim(0));
    assert_eq!(memory(&server, "kept"), (0, 0));

    // A primary context is one, whoever keeps it.
    let context = memory(&server, "context");
    let again = PrimaryRetain {
        context: 2,
        device: 0,
        flags: 0,
    };
    done(&mut w, &again);
    assert_eq!(memory(&server, "context"), context);
    let release = PrimaryRelease {
        context: 2,
        device: 0,
        reset: 0,
    };
    w.queue(1, &release);
    settle(&mut w);
    assert_eq!(memory(&server, "context"), context);

    // No device memory is where the host's lies.
    for range in [HOST, WINDOW, SHARED] {
        let there = MemMapAt {
            va: span(range).start,
            size: 2 * MIB,
            device: 0,
        };
        assert_ne!(w.call(1, &there).0, 0, "{range}");
    }
    let twin = ShareHost {
        va: span(HOST).start,
        size: 2 * MIB,
        number: 0,
        origin: span(HOST).start,
    };
    done(&mut w, &twin);
    let host = |server: &Server| holding(server)["host_memory"]["twin"]["bytes"].as_u64();
    assert_eq!(host(&server), Some(2 * MIB));
    w.queue(
        1,
        &UnshareHost {
            va: span(HOST).start,
            size: 2 * MIB,
        },
    );
    settle(&mut w);
    assert_eq!(host(&server), Some(0));

    // Arrays die with their context's reset, images with their modules, heaps with the context.
    let array = |p_handle, width| CuArrayCreateV2 {
        p_handle,
        p_allocate_array: shape(width, 10, 4),
    };
    done(&mut w, &array(1, 100));
    done(&mut w, &array(2, 5));
    assert_eq!(memory(&server, "array"), (4200, 2));
    w.queue(1, &CuArrayDestroy { h_array: 1 });
    settle(&mut w);
    assert_eq!(memory(&server, "array"), (200, 1));
    let hash = w.content(IMAGE.as_bytes());
    done(
        &mut w,
        &ModuleLoad {
            module: 1,
            hash,
            options: &[],
        },
    );
    assert_eq!(memory(&server, "module"), (IMAGE.len() as u64, 1));
    w.queue(1, &ModuleUnload { module: 1 });
    settle(&mut w);
    assert_eq!(memory(&server, "module"), (0, 0));
    done(
        &mut w,
        &CuCtxSetLimit {
            limit: 1,
            value: 3 * MIB,
        },
    );
    done(
        &mut w,
        &CuCtxSetLimit {
            limit: 1,
            value: 2 * MIB,
        },
    );
    assert_eq!(memory(&server, "heap"), (2 * MIB, 1));
    done(
        &mut w,
        &ModuleLoad {
            module: 2,
            hash,
            options: &[],
        },
    );
    let reset = PrimaryRelease {
        context: 1,
        device: 0,
        reset: 1,
    };
    w.queue(1, &reset);
    settle(&mut w);
    let all = holding(&server)["memory"].clone();
    for (kind, m) in all.as_object().expect("kinds") {
        assert_eq!(
            (m["bytes"].as_u64(), m["pieces"].as_u64()),
            (Some(0), Some(0)),
            "{kind}"
        );
    }
}

#[test]
fn ps_names_the_living_objects_of_each_session() {
    let server = Server::start();
    let mut w = Raw::open(&server.address);
    for ph_stream in 1..=2 {
        w.queue(
            1,
            &CuStreamCreate {
                ph_stream,
                flags: 0,
            },
        );
    }
    for ph_event in 1..=3 {
        w.queue(1, &CuEventCreate { ph_event, flags: 2 });
    }
    w.queue(1, &CuStreamDestroyV2 { h_stream: 2 });
    settle(&mut w);
    let count = |kind: &str| objects(&server, kind);
    assert_eq!(
        (count("Context"), count("Stream"), count("Event")),
        (1, 1, 3)
    );
    assert_eq!(count("Module"), 0);

    let mut c = Command::new(&tree().busbar);
    clear(&mut c);
    c.args(["ps", "--server", &server.address]);
    let plain = c.output().expect("ps runs");
    let plain = String::from_utf8_lossy(&plain.stdout).into_owned();
    let whole = c.arg("--objects").output().expect("ps runs");
    let whole = String::from_utf8_lossy(&whole.stdout).into_owned();
    assert!(!plain.contains("Event"), "{plain}");
    assert!(
        whole.contains("objects: 1 Context, 3 Event, 1 Stream\n"),
        "{whole}"
    );
    assert!(whole.contains("memory:  context: "), "{whole}");

    // All of them die with their context.
    w.queue(
        1,
        &PrimaryRelease {
            context: 1,
            device: 0,
            reset: 1,
        },
    );
    settle(&mut w);
    assert_eq!(
        holding(&server)["objects"],
        Value::Object(Default::default())
    );
}

#[test]
fn what_a_session_leaves_at_its_end_is_in_the_log() {
    let server = Options::default().env("BUSBAR_LOG", "debug").start();
    let said = |what: &str| {
        until(&format!("a line with {what}"), || {
            let log = server.log();
            log.lines().find(|l| l.contains(what)).map(String::from)
        })
    };
    let mut w = Raw::open(&server.address);
    w.queue(
        1,
        &CuStreamCreate {
            ph_stream: 1,
            flags: 0,
        },
    );
    settle(&mut w);
    drop(w);
    let line = said("left at the end");
    assert!(line.contains("1 Context, 1 Stream"), "{line}");

    // One that has given everything back leaves nothing.
    let server = Options::default().env("BUSBAR_LOG", "debug").start();
    let mut w = Raw::open(&server.address);
    w.queue(
        1,
        &PrimaryRelease {
            context: 1,
            device: 0,
            reset: 0,
        },
    );
    settle(&mut w);
    drop(w);
    let line = until("a line of what is left", || {
        let log = server.log();
        log.lines()
            .find(|l| l.contains("left at the end"))
            .map(String::from)
    });
    assert!(line.contains("none") && line.contains("bytes=0"), "{line}");
}

/// What records create and destroy is what the spec says: each kind comes, and goes with the record
/// that destroys it, and its children go along.
#[test]
fn each_kind_of_object_comes_and_goes_with_its_record() {
    let server = Server::start();
    let mut w = Raw::open(&server.address);
    let kinds = |w: &mut Raw| {
        settle(w);
        let objects = holding(&server)["objects"].clone();
        serde_json::from_value::<std::collections::BTreeMap<String, u64>>(objects).expect("counts")
    };
    let before = kinds(&mut w);
    let hash = w.content(IMAGE.as_bytes());
    let mut pool = vec![0; 88];
    pool[..4].copy_from_slice(&1u32.to_le_bytes());
    pool[8..12].copy_from_slice(&1u32.to_le_bytes());
    let mut mipmapped = [0; 40];
    mipmapped[..8].copy_from_slice(&16u64.to_le_bytes());
    mipmapped[24..28].copy_from_slice(&1u32.to_le_bytes());
    mipmapped[28..32].copy_from_slice(&1u32.to_le_bytes());
    let (library, module, options) = (1, 1, &[][..]);

    done(
        &mut w,
        &ModuleLoad {
            module,
            hash,
            options,
        },
    );
    done(
        &mut w,
        &ModuleFunction {
            module,
            name: "nop",
            function: 1,
        },
    );
    done(
        &mut w,
        &LibraryLoadNow {
            library,
            hash,
            options,
        },
    );
    done(&mut w, &LibraryModule { library, module: 2 });
    done(
        &mut w,
        &PoolCreate {
            pool: 1,
            props: &pool,
        },
    );
    done(
        &mut w,
        &VmmCreate {
            allocation: 1,
            size: 2 * MIB,
            props: &pinned(),
        },
    );
    done(
        &mut w,
        &CuMipmappedArrayCreate {
            p_handle: 1,
            p_mipmapped_array_desc: mipmapped,
            num_mipmap_levels: 2,
        },
    );
    done(
        &mut w,
        &CuMipmappedArrayGetLevel {
            p_level_array: 1,
            h_mipmapped_array: 1,
            level: 1,
        },
    );
    w.queue(
        1,
        &CuStreamCreate {
            ph_stream: 1,
            flags: 0,
        },
    );
    w.queue(
        1,
        &CuEventCreate {
            ph_event: 1,
            flags: 2,
        },
    );
    done(
        &mut w,
        &CuGraphCreate {
            ph_graph: 1,
            flags: 0,
        },
    );
    let mut empty = vec![0; 256];
    empty[..4].copy_from_slice(&5u32.to_le_bytes());
    for node in 1..=2 {
        done(
            &mut w,
            &GraphAddNode {
                node,
                graph: 1,
                kind: 5,
                after: vec![],
                edges: &[],
                params: &empty,
                extra: &[],
                mirrors: [0; 2],
            },
        );
    }
    done(
        &mut w,
        &GraphInstantiate {
            exec: 1,
            graph: 1,
            flags: 0,
            stream: 0,
        },
    );
    let mut there = kinds(&mut w);
    for kind in before.keys() {
        there.remove(kind);
    }
    let wanted = [
        ("Allocation", 1),
        ("Array", 1),
        ("Event", 1),
        ("Function", 1),
        ("Graph", 1),
        ("GraphExec", 1),
        ("GraphNode", 2),
        ("Library", 1),
        ("MemoryPool", 1),
        ("MipmappedArray", 1),
        ("Module", 2),
        ("Stream", 1),
    ];
    assert!(
        there.iter().map(|(k, n)| (k.as_str(), *n)).eq(wanted),
        "{there:?}"
    );

    w.queue(1, &CuGraphDestroyNode { h_node: 2 });
    assert_eq!(kinds(&mut w)["GraphNode"], 1);
    w.queue(1, &ModuleUnload { module });
    assert!(!kinds(&mut w).contains_key("Function"), "with its module");
    w.queue(1, &LibraryUnload { library });
    assert!(!kinds(&mut w).contains_key("Module"), "with its library");
    w.queue(1, &CuMemPoolDestroy { pool: 1 });
    w.queue(1, &VmmRelease { allocation: 1 });
    w.queue(
        1,
        &CuMipmappedArrayDestroy {
            h_mipmapped_array: 1,
        },
    );
    assert!(!kinds(&mut w).contains_key("Array"), "its levels go along");
    w.queue(1, &CuStreamDestroyV2 { h_stream: 1 });
    w.queue(1, &CuEventDestroyV2 { h_event: 1 });
    w.queue(1, &CuGraphDestroy { h_graph: 1 });
    w.queue(1, &CuGraphExecDestroy { h_graph_exec: 1 });
    assert_eq!(kinds(&mut w), before);
}
