//! User objects of graphs.

#[id(0x0f21)] #[waits] #[get_proc("cuGraphReleaseUserObject", 11030)]
#[changes(Graph, "user objects")]
fn cuGraphReleaseUserObject(#[handle] graph: CUgraph, #[handle] object: CUuserObject, count: u32) -> CUresult;

#[id(0x0f22)] #[waits] #[get_proc("cuGraphRetainUserObject", 11030)]
#[changes(Graph, "user objects")]
fn cuGraphRetainUserObject(
    #[handle] graph: CUgraph,
    #[handle] object: CUuserObject,
    count: u32,
    flags: u32,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuUserObjectCreate", 11030)]
fn cuUserObjectCreate(
    #[new] object_out: *mut CUuserObject,
    ptr: *mut c_void,
    destroy: CUhostFn,
    initialRefcount: u32,
    flags: u32,
) -> CUresult;

#[id(0x0f23)] #[waits] #[get_proc("cuUserObjectRelease", 11030)]
#[destroys(UserObject)]
fn cuUserObjectRelease(#[handle] object: CUuserObject, count: u32) -> CUresult;

#[id(0x0f24)] #[waits] #[get_proc("cuUserObjectRetain", 11030)]
#[changes(UserObject, "references")]
fn cuUserObjectRetain(#[handle] object: CUuserObject, count: u32) -> CUresult;
