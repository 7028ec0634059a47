//! User objects of graphs.

#[custom] #[todo] #[get_proc("cuGraphReleaseUserObject", 11030)]
fn cuGraphReleaseUserObject(graph: CUgraph, object: CUuserObject, count: u32) -> CUresult;

#[custom] #[todo] #[get_proc("cuGraphRetainUserObject", 11030)]
fn cuGraphRetainUserObject(
    graph: CUgraph,
    object: CUuserObject,
    count: u32,
    flags: u32,
) -> CUresult;

#[custom] #[todo] #[get_proc("cuUserObjectCreate", 11030)]
fn cuUserObjectCreate(
    object_out: *mut CUuserObject,
    ptr: *mut c_void,
    destroy: CUhostFn,
    initialRefcount: u32,
    flags: u32,
) -> CUresult;

#[custom] #[todo] #[get_proc("cuUserObjectRelease", 11030)]
fn cuUserObjectRelease(object: CUuserObject, count: u32) -> CUresult;

#[custom] #[todo] #[get_proc("cuUserObjectRetain", 11030)]
fn cuUserObjectRetain(object: CUuserObject, count: u32) -> CUresult;
