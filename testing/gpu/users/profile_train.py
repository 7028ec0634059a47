"""torch.profiler: a schedule of active steps, a table by operator, and a trace that is written."""
import json
import pathlib
import sys
import tempfile

import torch
from torch import nn
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function, schedule

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.use_deterministic_algorithms(True, warn_only=True)
torch.manual_seed(0)
net = nn.TransformerEncoder(
    nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True), 6,
    enable_nested_tensor=False,
).to(device)
optimizer = torch.optim.Adam(net.parameters(), 1e-4)
x = torch.randn(16, 128, 256, device=device)
tables = []
kinds = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device == "cuda")
with tempfile.TemporaryDirectory() as folder:
    trace = pathlib.Path(folder) / "trace.json"

    def ready(p):
        events = p.key_averages()
        tables.append({e.key: e.count for e in events if e.device_type == DeviceType.CPU})
        there = sum(e.device_type != DeviceType.CPU for e in events)
        print("# kinds of events of the device:", there)
        p.export_chrome_trace(str(trace))

    plan = schedule(wait=2, warmup=2, active=4, repeat=2)
    with profile(activities=kinds, schedule=plan, on_trace_ready=ready, record_shapes=True) as p:
        for step in range(steps):
            with record_function("forward"):
                loss = (net(x) - x.roll(1, 1)).pow(2).mean()
            with record_function("backward"):
                optimizer.zero_grad()
                loss.backward()
            optimizer.step()
            p.step()
            if step % max(1, steps // 5) == 0:
                print("step", step, f"loss {loss.item():.7g}")
    names = {e.get("name") for e in json.loads(trace.read_text())["traceEvents"]}
for table in tables:
    print({k: table.get(k) for k in ("forward", "backward", "aten::addmm", "aten::layer_norm")})
print("trace", {"forward", "aten::addmm"} <= names)
