"""Collectives of one rank: every operation of torch.distributed, with all digits."""

import os
import tempfile

import torch
import torch.distributed as dist


def show(name, tensor):
    first = [float(v).hex() for v in tensor.flatten()[:4].double().cpu()]
    print(name, first, float(tensor.double().sum()).hex())


def main():
    torch.cuda.set_device(0)
    where = "file://" + os.path.join(tempfile.mkdtemp(), "rendezvous")
    dist.init_process_group("nccl", init_method=where, rank=0, world_size=1)
    g = torch.Generator(device="cuda").manual_seed(7)
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64):
        x = (torch.randn(1 << 16, device="cuda", generator=g) * 100).to(dtype)
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT):
            y = x.clone()
            dist.all_reduce(y, op)
            show(f"all_reduce {dtype} {op}", y)
    x = torch.randn(4096, device="cuda", generator=g)
    y = x.clone()
    dist.all_reduce(y, dist.ReduceOp.AVG)
    show("average", y)
    y = x.clone()
    dist.all_reduce(y, dist._make_nccl_premul_sum(0.25))
    show("premul", y)
    dist.broadcast(x, 0)
    show("broadcast", x)
    dist.reduce(x, 0)
    show("reduce", x)
    out = [torch.empty_like(x)]
    dist.all_gather(out, x)
    show("all_gather", out[0])
    y = torch.empty_like(x)
    dist.all_gather_into_tensor(y, x)
    show("all_gather_into_tensor", y)
    dist.reduce_scatter_tensor(y, x)
    show("reduce_scatter_tensor", y)
    dist.all_to_all_single(y, x)
    show("all_to_all_single", y)
    dist.barrier()
    many = [torch.full((n,), float(n), device="cuda") for n in range(1, 200)]
    with dist._coalescing_manager(device=torch.device("cuda"), async_ops=True) as work:
        for t in many:
            dist.all_reduce(t)
    work.wait()
    show("coalesced", torch.cat(many))
    # In a graph: the stream captures at the worker, too.
    static = torch.randn(1024, device="cuda", generator=g)
    dist.all_reduce(static)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        doubled = static * 2
        dist.all_reduce(doubled)
        result = doubled + 1
    for i in range(3):
        static.fill_(i + 0.5)
        graph.replay()
        torch.cuda.synchronize()
        show(f"graph {i}", result)
    del graph
    half = dist.new_group([0])
    dist.all_reduce(x, group=half)
    show("group", x)
    dist.destroy_process_group()
    print("done")


main()
