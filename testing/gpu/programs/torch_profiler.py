"""What torch.profiler tells: operators, and what the device did for their sake."""

import json
import tempfile

import torch
from torch.profiler import DeviceType, ProfilerActivity, profile, record_function

both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
x = torch.randn(256, 256, device="cuda")
host = torch.randn(1 << 20).pin_memory()
warm = (x @ x).relu().sum().item()
torch.cuda.synchronize()

with profile(activities=both, record_shapes=True) as p:
    for _ in range(3):
        with record_function("a step"):
            y = (x @ x).relu()
    there = host.to("cuda", non_blocking=True)
    back = there.cpu()
    torch.zeros(1 << 20, device="cuda").sum().item()
    torch.cuda.synchronize()

assert torch.equal(back, host)
on_device = [e for e in p.events() if e.device_type == DeviceType.CUDA]
for name in sorted({e.name for e in on_device}):
    same = [e for e in on_device if e.name == name]
    some = all(e.time_range.elapsed_us() > 0 for e in same)
    print(len(same), name[:100], "takes time" if some else "takes none")
for e in sorted(p.key_averages(), key=lambda e: e.key):
    if e.key.startswith("aten::") or e.key == "a step":
        print(e.key, e.count, "device time" if e.device_time_total > 0 else "-")

# Each kernel is tied to its launch, and begins after it.
with tempfile.NamedTemporaryFile(suffix=".json") as f:
    p.export_chrome_trace(f.name)
    events = json.load(open(f.name))["traceEvents"]
launches = {
    e["args"]["correlation"]: e
    for e in events
    if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {})
}
kernels = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
tied = [launches.get(e["args"]["correlation"]) for e in kernels]
print("tied", all(tied), len(kernels) > 8)
print("in order", all(k["ts"] >= t["ts"] for k, t in zip(kernels, tied) if t))
ops = {e["args"]["External id"] for e in events if e.get("cat") == "cpu_op"}
named = [e for e in kernels if e["args"].get("External id") in ops]
print("of operators", len(named) == len(kernels))
for e in kernels:
    if e["cat"] == "kernel":
        a = e["args"]
        print(e["name"][:60], a["grid"], a["block"], a["device"], a["registers per thread"] > 0)
    else:
        print(e["name"], e["args"]["bytes"], e["args"]["device"])

# A second time, with a schedule, and a graph.
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    z = (x @ x).relu() + 1
with profile(activities=both, schedule=torch.profiler.schedule(wait=1, warmup=1, active=2)) as p:
    for _ in range(4):
        graph.replay()
        torch.cuda.synchronize()
        p.step()
on_device = [e for e in p.events() if e.device_type == DeviceType.CUDA]
names = sorted(e.name[:60] for e in on_device if not e.name.startswith("ProfilerStep"))
print("of graphs", len(names), sorted(set(names)))
