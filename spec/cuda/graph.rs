//! Graphs.

#[cx] #[is(mem_attribute(device, attr, value, false))] #[get_proc("cuDeviceGetGraphMemAttribute", 11040)]
fn cuDeviceGetGraphMemAttribute(
    device: CUdevice,
    attr: CUgraphMem_attribute,
    value: *mut c_void,
) -> CUresult;

#[id(0x0f01)] #[waits] #[by_hand(worker)] #[get_proc("cuDeviceGraphMemTrim", 11040)]
fn cuDeviceGraphMemTrim(device: CUdevice) -> CUresult;

#[cx] #[is(mem_attribute(device, attr, value, true))] #[get_proc("cuDeviceSetGraphMemAttribute", 11040)]
fn cuDeviceSetGraphMemAttribute(
    device: CUdevice,
    attr: CUgraphMem_attribute,
    value: *mut c_void,
) -> CUresult;

#[cx] #[is(add_node(hGraph, dependencies, numDependencies, nodeParams, batch))] #[get_proc("cuGraphAddBatchMemOpNode", 11070)]
fn cuGraphAddBatchMemOpNode(
    #[new] phGraphNode: *mut CUgraphNode,
    #[handle] hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    numDependencies: usize,
    nodeParams: *const CUDA_BATCH_MEM_OP_NODE_PARAMS,
) -> CUresult;

#[cx] #[is(add_node(hGraph, dependencies, numDependencies, &childGraph, |p| of(CU_GRAPH_NODE_TYPE_GRAPH, p)))] #[get_proc("cuGraphAddChildGraphNode", 10000)]
fn cuGraphAddChildGraphNode(
    #[new] phGraphNode: *mut CUgraphNode,
    #[handle] hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    numDependencies: usize,
    childGraph: CUgraph,
) -> CUresult;

#[id(0x0f03)] #[waits] #[get_proc("cuGraphAddDependencies", 10000)]
#[changes(Graph, "edges")]
fn cuGraphAddDependencies(
    #[handle] hGraph: CUgraph,
    #[handle_array(numDependencies)] from: *const CUgraphNode,
    #[handle_array(numDependencies)] to: *const CUgraphNode,
    numDependencies: usize,
) -> CUresult;

#[id(0x0f04)] #[waits] #[get_proc("cuGraphAddDependencies", 12030)]
#[changes(Graph, "edges")]
fn cuGraphAddDependencies_v2(
    #[handle] hGraph: CUgraph,
    #[handle_array(numDependencies)] from: *const CUgraphNode,
    #[handle_array(numDependencies)] to: *const CUgraphNode,
    #[in_array(numDependencies, optional)] edgeData: *const CUgraphEdgeData,
    numDependencies: usize,
) -> CUresult;

#[cx] #[is(add_node(hGraph, dependencies, numDependencies, &0u64, |n| of(CU_GRAPH_NODE_TYPE_EMPTY, n)))] #[get_proc("cuGraphAddEmptyNode", 10000)]
fn cuGraphAddEmptyNode(
    #[new] phGraphNode: *mut CUgraphNode,
    #[handle] hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    numDependencies: usize,
) -> CUresult;

#[cx] #[is(add_node(hGraph, dependencies, numDependencies, &event, |p| of(CU_GRAPH_NODE_TYPE_EVENT_RECORD, p)))] #[get_proc("cuGraphAddEventRecordNode", 11010)]
fn cuGraphAddEventRecordNode(
    #[new] phGraphNode: *mut CUgraphNode,
    #[handle] hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    numDependencies: usize,
    event: CUevent,
) -> CUresult;

#[cx] #[is(add_node(hGraph, dependencies, numDependencies, &event, |p| of(CU_GRAPH_NODE_TYPE_WAIT_EVENT, p)))] #[get_proc("cuGraphAddEventWaitNode", 11010)]
fn cuGraphAddEventWaitNode(
    #[new] phGraphNode: *mut CUgraphNode,
    #[handle] hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    numDependencies: usize,
    event: CUevent,
) -> CUresult;

#[unsupported("memory and semaphores of other APIs cannot leave their machine")]
#[get_proc("cuGraphAddExternalSemaphoresSignalNode", 11020)]
fn cuGraphAddExternalSemaphoresSignalNode(
    phGraphNode: *mut CUgraphNode,
    hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    numDependencies: usize,
    nodeParams: *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS,
) -> CUresult;

#[unsupported("memory and semaphores of other APIs cannot leave their machine")]
#[get_proc("cuGraphAddExternalSemaphoresWaitNode", 11020)]
fn cuGraphAddExternalSemaphoresWaitNode(
    phGraphNode: *mut CUgraphNode,
    hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    numDependencies: usize,
    nodeParams: *const CUDA_EXT_SEM_WAIT_NODE_PARAMS,
) -> CUresult;

#[cx] #[is(add_node(hGraph, dependencies, numDependencies, nodeParams, host))] #[get_proc("cuGraphAddHostNode", 10000)]
fn cuGraphAddHostNode(
    #[new] phGraphNode: *mut CUgraphNode,
    #[handle] hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    numDependencies: usize,
    nodeParams: *const CUDA_HOST_NODE_PARAMS,
) -> CUresult;

#[cx] #[is(add_node(hGraph, dependencies, numDependencies, nodeParams, kernel_v1))] #[get_proc("cuGraphAddKernelNode", 10000)]
fn cuGraphAddKernelNode(
    #[new] phGraphNode: *mut CUgraphNode,
    #[handle] hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    numDependencies: usize,
    nodeParams: *const CUDA_KERNEL_NODE_PARAMS_v1,
) -> CUresult;

#[cx] #[is(add_node(hGraph, dependencies, numDependencies, nodeParams, kernel_v2))] #[get_proc("cuGraphAddKernelNode", 12000)]
fn cuGraphAddKernelNode_v2(
    #[new] phGraphNode: *mut CUgraphNode,
    #[handle] hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    numDependencies: usize,
    nodeParams: *const CUDA_KERNEL_NODE_PARAMS,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuGraphAddMemAllocNode", 11040)]
fn cuGraphAddMemAllocNode(
    #[new] phGraphNode: *mut CUgraphNode,
    #[handle] hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    numDependencies: usize,
    nodeParams: *mut CUDA_MEM_ALLOC_NODE_PARAMS,
) -> CUresult;

#[cx] #[is(add_node(hGraph, dependencies, numDependencies, copyParams, |p| memcpy(p, ctx)))] #[get_proc("cuGraphAddMemcpyNode", 10000)]
fn cuGraphAddMemcpyNode(
    #[new] phGraphNode: *mut CUgraphNode,
    #[handle] hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    numDependencies: usize,
    copyParams: *const CUDA_MEMCPY3D,
    ctx: CUcontext,
) -> CUresult;

#[cx] #[is(add_node(hGraph, dependencies, numDependencies, &dptr, |p| of(CU_GRAPH_NODE_TYPE_MEM_FREE, p)))] #[get_proc("cuGraphAddMemFreeNode", 11040)]
fn cuGraphAddMemFreeNode(
    #[new] phGraphNode: *mut CUgraphNode,
    #[handle] hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    numDependencies: usize,
    dptr: CUdeviceptr,
) -> CUresult;

#[cx] #[is(add_node(hGraph, dependencies, numDependencies, memsetParams, |p| memset(p, ctx)))] #[get_proc("cuGraphAddMemsetNode", 10000)]
fn cuGraphAddMemsetNode(
    #[new] phGraphNode: *mut CUgraphNode,
    #[handle] hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    numDependencies: usize,
    memsetParams: *const CUDA_MEMSET_NODE_PARAMS,
    ctx: CUcontext,
) -> CUresult;

#[is(cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, null, numDependencies, nodeParams))] #[get_proc("cuGraphAddNode", 12020)]
fn cuGraphAddNode(
    #[new] phGraphNode: *mut CUgraphNode,
    hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    numDependencies: usize,
    nodeParams: *mut CUgraphNodeParams,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuGraphAddNode", 12030)]
fn cuGraphAddNode_v2(
    #[new] phGraphNode: *mut CUgraphNode,
    #[handle] hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    dependencyData: *const CUgraphEdgeData,
    numDependencies: usize,
    nodeParams: *mut CUgraphNodeParams,
) -> CUresult;

#[cx] #[is(get_node(hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, busbar_abi::member))] #[get_proc("cuGraphBatchMemOpNodeGetParams", 11070)]
fn cuGraphBatchMemOpNodeGetParams(
    #[handle] hNode: CUgraphNode,
    #[out] nodeParams_out: *mut CUDA_BATCH_MEM_OP_NODE_PARAMS,
) -> CUresult;

#[cx] #[is(set_node(hNode, nodeParams, batch))] #[get_proc("cuGraphBatchMemOpNodeSetParams", 11070)]
fn cuGraphBatchMemOpNodeSetParams(
    #[handle] hNode: CUgraphNode,
    nodeParams: *const CUDA_BATCH_MEM_OP_NODE_PARAMS,
) -> CUresult;

#[cx] #[is(get_node(hNode, CU_GRAPH_NODE_TYPE_GRAPH, busbar_abi::member))] #[get_proc("cuGraphChildGraphNodeGetGraph", 10000)]
fn cuGraphChildGraphNodeGetGraph(
    #[handle] hNode: CUgraphNode,
    #[gives(one)] phGraph: *mut CUgraph,
) -> CUresult;

#[id(0x0f1e)] #[waits] #[get_proc("cuGraphClone", 10000)]
fn cuGraphClone(#[new] phGraphClone: *mut CUgraph, #[handle] originalGraph: CUgraph) -> CUresult;

#[id(0x0f09)] #[waits] #[get_proc("cuGraphConditionalHandleCreate", 12030)]
fn cuGraphConditionalHandleCreate(
    #[out] pHandle_out: *mut CUgraphConditionalHandle,
    #[handle] hGraph: CUgraph,
    #[handle(optional)] ctx: CUcontext,
    defaultLaunchValue: u32,
    flags: u32,
) -> CUresult;

#[id(0x0f0a)] #[queued_if(flags == 0)] #[get_proc("cuGraphCreate", 10000)]
fn cuGraphCreate(#[new] phGraph: *mut CUgraph, flags: u32) -> CUresult;

#[custom] #[cx] #[get_proc("cuGraphDebugDotPrint", 11030)]
fn cuGraphDebugDotPrint(
    #[handle] hGraph: CUgraph,
    #[cstr] path: *const c_char,
    flags: u32,
) -> CUresult;

#[id(0x0f0b)] #[queued] #[get_proc("cuGraphDestroy", 10000)]
fn cuGraphDestroy(#[del] hGraph: CUgraph) -> CUresult;

#[id(0x0f0c)] #[waits] #[get_proc("cuGraphDestroyNode", 10000)]
fn cuGraphDestroyNode(#[del] hNode: CUgraphNode) -> CUresult;

#[cx] #[is(get_node(hNode, CU_GRAPH_NODE_TYPE_EVENT_RECORD, busbar_abi::member))] #[get_proc("cuGraphEventRecordNodeGetEvent", 11010)]
fn cuGraphEventRecordNodeGetEvent(
    #[handle] hNode: CUgraphNode,
    #[gives(one)] event_out: *mut CUevent,
) -> CUresult;

#[id(0x0f0d)] #[waits] #[get_proc("cuGraphEventRecordNodeSetEvent", 11010)]
#[changes(GraphNode, "event")]
fn cuGraphEventRecordNodeSetEvent(
    #[handle] hNode: CUgraphNode,
    #[handle] event: CUevent,
) -> CUresult;

#[cx] #[is(get_node(hNode, CU_GRAPH_NODE_TYPE_WAIT_EVENT, busbar_abi::member))] #[get_proc("cuGraphEventWaitNodeGetEvent", 11010)]
fn cuGraphEventWaitNodeGetEvent(
    #[handle] hNode: CUgraphNode,
    #[gives(one)] event_out: *mut CUevent,
) -> CUresult;

#[id(0x0f0e)] #[waits] #[get_proc("cuGraphEventWaitNodeSetEvent", 11010)]
#[changes(GraphNode, "event")]
fn cuGraphEventWaitNodeSetEvent(#[handle] hNode: CUgraphNode, #[handle] event: CUevent) -> CUresult;

#[cx] #[is(exec_set_node(hGraphExec, hNode, nodeParams, batch))] #[get_proc("cuGraphExecBatchMemOpNodeSetParams", 11070)]
fn cuGraphExecBatchMemOpNodeSetParams(
    #[handle] hGraphExec: CUgraphExec,
    #[handle] hNode: CUgraphNode,
    nodeParams: *const CUDA_BATCH_MEM_OP_NODE_PARAMS,
) -> CUresult;

#[cx] #[is(exec_set_node(hGraphExec, hNode, &childGraph, |p| of(CU_GRAPH_NODE_TYPE_GRAPH, p)))] #[get_proc("cuGraphExecChildGraphNodeSetParams", 11010)]
fn cuGraphExecChildGraphNodeSetParams(
    #[handle] hGraphExec: CUgraphExec,
    #[handle] hNode: CUgraphNode,
    childGraph: CUgraph,
) -> CUresult;

#[id(0x0f10)] #[queued] #[by_hand(worker)] #[disturbs] #[get_proc("cuGraphExecDestroy", 10000)]
fn cuGraphExecDestroy(#[del] hGraphExec: CUgraphExec) -> CUresult;

#[id(0x0f11)] #[waits] #[get_proc("cuGraphExecEventRecordNodeSetEvent", 11010)]
#[changes(GraphExec, "parameters of a node")]
fn cuGraphExecEventRecordNodeSetEvent(
    #[handle] hGraphExec: CUgraphExec,
    #[handle] hNode: CUgraphNode,
    #[handle] event: CUevent,
) -> CUresult;

#[id(0x0f12)] #[waits] #[get_proc("cuGraphExecEventWaitNodeSetEvent", 11010)]
#[changes(GraphExec, "parameters of a node")]
fn cuGraphExecEventWaitNodeSetEvent(
    #[handle] hGraphExec: CUgraphExec,
    #[handle] hNode: CUgraphNode,
    #[handle] event: CUevent,
) -> CUresult;

#[unsupported("memory and semaphores of other APIs cannot leave their machine")]
#[get_proc("cuGraphExecExternalSemaphoresSignalNodeSetParams", 11020)]
fn cuGraphExecExternalSemaphoresSignalNodeSetParams(
    hGraphExec: CUgraphExec,
    hNode: CUgraphNode,
    nodeParams: *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS,
) -> CUresult;

#[unsupported("memory and semaphores of other APIs cannot leave their machine")]
#[get_proc("cuGraphExecExternalSemaphoresWaitNodeSetParams", 11020)]
fn cuGraphExecExternalSemaphoresWaitNodeSetParams(
    hGraphExec: CUgraphExec,
    hNode: CUgraphNode,
    nodeParams: *const CUDA_EXT_SEM_WAIT_NODE_PARAMS,
) -> CUresult;

#[id(0x0f13)] #[waits] #[get_proc("cuGraphExecGetFlags", 12000)]
fn cuGraphExecGetFlags(#[handle] hGraphExec: CUgraphExec, #[out] flags: *mut u64) -> CUresult;

#[cx] #[is(exec_set_node(hGraphExec, hNode, nodeParams, host))] #[get_proc("cuGraphExecHostNodeSetParams", 10020)]
fn cuGraphExecHostNodeSetParams(
    #[handle] hGraphExec: CUgraphExec,
    #[handle] hNode: CUgraphNode,
    nodeParams: *const CUDA_HOST_NODE_PARAMS,
) -> CUresult;

#[cx] #[is(exec_set_node(hGraphExec, hNode, nodeParams, kernel_v1))] #[get_proc("cuGraphExecKernelNodeSetParams", 10010)]
fn cuGraphExecKernelNodeSetParams(
    #[handle] hGraphExec: CUgraphExec,
    #[handle] hNode: CUgraphNode,
    nodeParams: *const CUDA_KERNEL_NODE_PARAMS_v1,
) -> CUresult;

#[cx] #[is(exec_set_node(hGraphExec, hNode, nodeParams, kernel_v2))] #[get_proc("cuGraphExecKernelNodeSetParams", 12000)]
fn cuGraphExecKernelNodeSetParams_v2(
    #[handle] hGraphExec: CUgraphExec,
    #[handle] hNode: CUgraphNode,
    nodeParams: *const CUDA_KERNEL_NODE_PARAMS,
) -> CUresult;

#[cx] #[is(exec_set_node(hGraphExec, hNode, copyParams, |p| memcpy(p, ctx)))] #[get_proc("cuGraphExecMemcpyNodeSetParams", 10020)]
fn cuGraphExecMemcpyNodeSetParams(
    #[handle] hGraphExec: CUgraphExec,
    #[handle] hNode: CUgraphNode,
    copyParams: *const CUDA_MEMCPY3D,
    ctx: CUcontext,
) -> CUresult;

#[cx] #[is(exec_set_node(hGraphExec, hNode, memsetParams, |p| memset(p, ctx)))] #[get_proc("cuGraphExecMemsetNodeSetParams", 10020)]
fn cuGraphExecMemsetNodeSetParams(
    #[handle] hGraphExec: CUgraphExec,
    #[handle] hNode: CUgraphNode,
    memsetParams: *const CUDA_MEMSET_NODE_PARAMS,
    ctx: CUcontext,
) -> CUresult;

#[cx] #[is(exec_set_node(hGraphExec, hNode, nodeParams, |p| p))] #[get_proc("cuGraphExecNodeSetParams", 12020)]
fn cuGraphExecNodeSetParams(
    #[handle] hGraphExec: CUgraphExec,
    #[handle] hNode: CUgraphNode,
    nodeParams: *mut CUgraphNodeParams,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuGraphExecUpdate", 10020)]
fn cuGraphExecUpdate(
    #[handle] hGraphExec: CUgraphExec,
    #[handle] hGraph: CUgraph,
    #[gives] hErrorNode_out: *mut CUgraphNode,
    updateResult_out: *mut CUgraphExecUpdateResult,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuGraphExecUpdate", 12000)]
fn cuGraphExecUpdate_v2(
    #[handle] hGraphExec: CUgraphExec,
    #[handle] hGraph: CUgraph,
    resultInfo: *mut CUgraphExecUpdateResultInfo,
) -> CUresult;

#[unsupported("memory and semaphores of other APIs cannot leave their machine")]
#[get_proc("cuGraphExternalSemaphoresSignalNodeGetParams", 11020)]
fn cuGraphExternalSemaphoresSignalNodeGetParams(
    hNode: CUgraphNode,
    params_out: *mut CUDA_EXT_SEM_SIGNAL_NODE_PARAMS,
) -> CUresult;

#[unsupported("memory and semaphores of other APIs cannot leave their machine")]
#[get_proc("cuGraphExternalSemaphoresSignalNodeSetParams", 11020)]
fn cuGraphExternalSemaphoresSignalNodeSetParams(
    hNode: CUgraphNode,
    nodeParams: *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS,
) -> CUresult;

#[unsupported("memory and semaphores of other APIs cannot leave their machine")]
#[get_proc("cuGraphExternalSemaphoresWaitNodeGetParams", 11020)]
fn cuGraphExternalSemaphoresWaitNodeGetParams(
    hNode: CUgraphNode,
    params_out: *mut CUDA_EXT_SEM_WAIT_NODE_PARAMS,
) -> CUresult;

#[unsupported("memory and semaphores of other APIs cannot leave their machine")]
#[get_proc("cuGraphExternalSemaphoresWaitNodeSetParams", 11020)]
fn cuGraphExternalSemaphoresWaitNodeSetParams(
    hNode: CUgraphNode,
    nodeParams: *const CUDA_EXT_SEM_WAIT_NODE_PARAMS,
) -> CUresult;

#[is(cuGraphGetEdges_v2(hGraph, from, to, null, numEdges))] #[get_proc("cuGraphGetEdges", 10000)]
fn cuGraphGetEdges(
    hGraph: CUgraph,
    #[gives] from: *mut CUgraphNode,
    #[gives] to: *mut CUgraphNode,
    numEdges: *mut usize,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuGraphGetEdges", 12030)]
fn cuGraphGetEdges_v2(
    #[handle] hGraph: CUgraph,
    #[gives] from: *mut CUgraphNode,
    #[gives] to: *mut CUgraphNode,
    edgeData: *mut CUgraphEdgeData,
    numEdges: *mut usize,
) -> CUresult;

#[cx] #[is(nodes_of(hGraph, 0, nodes, numNodes))] #[get_proc("cuGraphGetNodes", 10000)]
fn cuGraphGetNodes(
    #[handle] hGraph: CUgraph,
    #[gives] nodes: *mut CUgraphNode,
    numNodes: *mut usize,
) -> CUresult;

#[cx] #[is(nodes_of(hGraph, 1, rootNodes, numRootNodes))] #[get_proc("cuGraphGetRootNodes", 10000)]
fn cuGraphGetRootNodes(
    #[handle] hGraph: CUgraph,
    #[gives] rootNodes: *mut CUgraphNode,
    numRootNodes: *mut usize,
) -> CUresult;

#[cx] #[is(get_node(hNode, CU_GRAPH_NODE_TYPE_HOST, busbar_abi::member))] #[get_proc("cuGraphHostNodeGetParams", 10000)]
fn cuGraphHostNodeGetParams(
    #[handle] hNode: CUgraphNode,
    #[out] nodeParams: *mut CUDA_HOST_NODE_PARAMS,
) -> CUresult;

#[cx] #[is(set_node(hNode, nodeParams, host))] #[get_proc("cuGraphHostNodeSetParams", 10000)]
fn cuGraphHostNodeSetParams(
    #[handle] hNode: CUgraphNode,
    nodeParams: *const CUDA_HOST_NODE_PARAMS,
) -> CUresult;

#[custom] #[get_proc("cuGraphInstantiate", 10000)]
fn cuGraphInstantiate(
    #[new] phGraphExec: *mut CUgraphExec,
    hGraph: CUgraph,
    #[gives] phErrorNode: *mut CUgraphNode,
    logBuffer: *mut c_char,
    bufferSize: usize,
) -> CUresult;

#[is(cuGraphInstantiate)] #[get_proc("cuGraphInstantiate", 11000)]
fn cuGraphInstantiate_v2(
    phGraphExec: *mut CUgraphExec,
    hGraph: CUgraph,
    phErrorNode: *mut CUgraphNode,
    logBuffer: *mut c_char,
    bufferSize: usize,
) -> CUresult;

#[custom] #[get_proc("cuGraphInstantiateWithFlags", 11040)]
fn cuGraphInstantiateWithFlags(
    #[new] phGraphExec: *mut CUgraphExec,
    hGraph: CUgraph,
    flags: u64,
) -> CUresult;

#[custom] #[get_proc("cuGraphInstantiateWithParams", 12000)] #[per_thread("_ptsz")]
fn cuGraphInstantiateWithParams(
    #[new] phGraphExec: *mut CUgraphExec,
    hGraph: CUgraph,
    instantiateParams: *mut CUDA_GRAPH_INSTANTIATE_PARAMS,
) -> CUresult;

#[id(0x0f15)] #[waits] #[get_proc("cuGraphKernelNodeCopyAttributes", 11000)]
#[changes(GraphNode, dst, "attribute")]
fn cuGraphKernelNodeCopyAttributes(
    #[handle] dst: CUgraphNode,
    #[handle] src: CUgraphNode,
) -> CUresult;

#[id(0x0f20)] #[waits] #[get_proc("cuGraphKernelNodeGetAttribute", 11000)]
fn cuGraphKernelNodeGetAttribute(
    #[handle] hNode: CUgraphNode,
    attr: CUkernelNodeAttrID,
    #[out] value_out: *mut CUkernelNodeAttrValue,
) -> CUresult;

#[cx] #[is(get_node(hNode, CU_GRAPH_NODE_TYPE_KERNEL, busbar_abi::member))] #[get_proc("cuGraphKernelNodeGetParams", 10000)]
fn cuGraphKernelNodeGetParams(
    #[handle] hNode: CUgraphNode,
    #[out] nodeParams: *mut CUDA_KERNEL_NODE_PARAMS_v1,
) -> CUresult;

#[cx] #[is(get_node(hNode, CU_GRAPH_NODE_TYPE_KERNEL, busbar_abi::member))] #[get_proc("cuGraphKernelNodeGetParams", 12000)]
fn cuGraphKernelNodeGetParams_v2(
    #[handle] hNode: CUgraphNode,
    #[out] nodeParams: *mut CUDA_KERNEL_NODE_PARAMS,
) -> CUresult;

#[id(0x0f1f)] #[waits] #[by_hand(client)] #[cx] #[get_proc("cuGraphKernelNodeSetAttribute", 11000)]
#[changes(GraphNode, "attribute")]
fn cuGraphKernelNodeSetAttribute(
    #[handle] hNode: CUgraphNode,
    attr: CUkernelNodeAttrID,
    #[in_ref] value: *const CUkernelNodeAttrValue,
) -> CUresult;

#[cx] #[is(set_node(hNode, nodeParams, kernel_v1))] #[get_proc("cuGraphKernelNodeSetParams", 10000)]
fn cuGraphKernelNodeSetParams(
    #[handle] hNode: CUgraphNode,
    nodeParams: *const CUDA_KERNEL_NODE_PARAMS_v1,
) -> CUresult;

#[cx] #[is(set_node(hNode, nodeParams, kernel_v2))] #[get_proc("cuGraphKernelNodeSetParams", 12000)]
fn cuGraphKernelNodeSetParams_v2(
    #[handle] hNode: CUgraphNode,
    nodeParams: *const CUDA_KERNEL_NODE_PARAMS,
) -> CUresult;

#[id(0x0f16)] #[queued] #[by_hand(client, worker)] #[cx(in_functions)] #[get_proc("cuGraphLaunch", 10000)] #[per_thread("_ptsz")]
fn cuGraphLaunch(#[handle] hGraph: CUgraphExec, #[handle] hStream: CUstream) -> CUresult;

#[cx] #[is(get_node(hNode, CU_GRAPH_NODE_TYPE_MEM_ALLOC, busbar_abi::member))] #[get_proc("cuGraphMemAllocNodeGetParams", 11040)]
fn cuGraphMemAllocNodeGetParams(
    #[handle] hNode: CUgraphNode,
    #[out] params_out: *mut CUDA_MEM_ALLOC_NODE_PARAMS,
) -> CUresult;

#[cx] #[is(get_node(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, copy_of))] #[get_proc("cuGraphMemcpyNodeGetParams", 10000)]
fn cuGraphMemcpyNodeGetParams(
    #[handle] hNode: CUgraphNode,
    #[out] nodeParams: *mut CUDA_MEMCPY3D,
) -> CUresult;

#[cx] #[is(set_node(hNode, nodeParams, |p| memcpy(p, std::ptr::null_mut())))] #[get_proc("cuGraphMemcpyNodeSetParams", 10000)]
fn cuGraphMemcpyNodeSetParams(
    #[handle] hNode: CUgraphNode,
    nodeParams: *const CUDA_MEMCPY3D,
) -> CUresult;

#[id(0x0f17)] #[waits] #[get_proc("cuGraphMemFreeNodeGetParams", 11040)]
fn cuGraphMemFreeNodeGetParams(
    #[handle] hNode: CUgraphNode,
    #[out] dptr_out: *mut CUdeviceptr,
) -> CUresult;

#[cx] #[is(get_node(hNode, CU_GRAPH_NODE_TYPE_MEMSET, busbar_abi::member))] #[get_proc("cuGraphMemsetNodeGetParams", 10000)]
fn cuGraphMemsetNodeGetParams(
    #[handle] hNode: CUgraphNode,
    #[out] nodeParams: *mut CUDA_MEMSET_NODE_PARAMS,
) -> CUresult;

#[cx] #[is(set_node(hNode, nodeParams, |p| memset(p, std::ptr::null_mut())))] #[get_proc("cuGraphMemsetNodeSetParams", 10000)]
fn cuGraphMemsetNodeSetParams(
    #[handle] hNode: CUgraphNode,
    nodeParams: *const CUDA_MEMSET_NODE_PARAMS,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuGraphNodeFindInClone", 10000)]
fn cuGraphNodeFindInClone(
    #[gives(one)] phNode: *mut CUgraphNode,
    #[handle] hOriginalNode: CUgraphNode,
    #[handle] hClonedGraph: CUgraph,
) -> CUresult;

#[is(cuGraphNodeGetDependencies_v2(hNode, dependencies, null, numDependencies))] #[get_proc("cuGraphNodeGetDependencies", 10000)]
fn cuGraphNodeGetDependencies(
    hNode: CUgraphNode,
    #[gives] dependencies: *mut CUgraphNode,
    numDependencies: *mut usize,
) -> CUresult;

#[cx] #[is(neighbours(hNode, 0, dependencies, edgeData, numDependencies))] #[get_proc("cuGraphNodeGetDependencies", 12030)]
fn cuGraphNodeGetDependencies_v2(
    #[handle] hNode: CUgraphNode,
    #[gives] dependencies: *mut CUgraphNode,
    edgeData: *mut CUgraphEdgeData,
    numDependencies: *mut usize,
) -> CUresult;

#[is(cuGraphNodeGetDependentNodes_v2(hNode, dependentNodes, null, numDependentNodes))] #[get_proc("cuGraphNodeGetDependentNodes", 10000)]
fn cuGraphNodeGetDependentNodes(
    hNode: CUgraphNode,
    #[gives] dependentNodes: *mut CUgraphNode,
    numDependentNodes: *mut usize,
) -> CUresult;

#[cx] #[is(neighbours(hNode, 1, dependentNodes, edgeData, numDependentNodes))] #[get_proc("cuGraphNodeGetDependentNodes", 12030)]
fn cuGraphNodeGetDependentNodes_v2(
    #[handle] hNode: CUgraphNode,
    #[gives] dependentNodes: *mut CUgraphNode,
    edgeData: *mut CUgraphEdgeData,
    numDependentNodes: *mut usize,
) -> CUresult;

#[id(0x0f18)] #[waits] #[get_proc("cuGraphNodeGetEnabled", 11060)]
fn cuGraphNodeGetEnabled(
    #[handle] hGraphExec: CUgraphExec,
    #[handle] hNode: CUgraphNode,
    #[out] isEnabled: *mut u32,
) -> CUresult;

#[id(0x0f19)] #[waits] #[get_proc("cuGraphNodeGetType", 10000)]
fn cuGraphNodeGetType(
    #[handle] hNode: CUgraphNode,
    #[out] r#type: *mut CUgraphNodeType,
) -> CUresult;

#[id(0x0f1a)] #[waits] #[by_hand(client, worker)] #[cx]
#[get_proc("cuGraphNodeSetEnabled", 11060)]
#[changes(GraphExec, "whether a node is enabled")]
fn cuGraphNodeSetEnabled(
    #[handle] hGraphExec: CUgraphExec,
    #[handle] hNode: CUgraphNode,
    isEnabled: u32,
) -> CUresult;

#[cx] #[is(set_node(hNode, nodeParams, |p| p))] #[get_proc("cuGraphNodeSetParams", 12020)]
fn cuGraphNodeSetParams(
    #[handle] hNode: CUgraphNode,
    nodeParams: *mut CUgraphNodeParams,
) -> CUresult;

#[id(0x0f1b)] #[waits] #[get_proc("cuGraphRemoveDependencies", 10000)]
#[changes(Graph, "edges")]
fn cuGraphRemoveDependencies(
    #[handle] hGraph: CUgraph,
    #[handle_array(numDependencies)] from: *const CUgraphNode,
    #[handle_array(numDependencies)] to: *const CUgraphNode,
    numDependencies: usize,
) -> CUresult;

#[id(0x0f1c)] #[waits] #[get_proc("cuGraphRemoveDependencies", 12030)]
#[changes(Graph, "edges")]
fn cuGraphRemoveDependencies_v2(
    #[handle] hGraph: CUgraph,
    #[handle_array(numDependencies)] from: *const CUgraphNode,
    #[handle_array(numDependencies)] to: *const CUgraphNode,
    #[in_array(numDependencies, optional)] edgeData: *const CUgraphEdgeData,
    numDependencies: usize,
) -> CUresult;

#[id(0x0f1d)] #[queued] #[get_proc("cuGraphUpload", 11010)] #[per_thread("_ptsz")]
fn cuGraphUpload(#[handle] hGraph: CUgraphExec, #[handle] hStream: CUstream) -> CUresult;
