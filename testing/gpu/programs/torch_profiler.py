"""The profiler may know less of a remote device, but must not crash."""
import torch
from torch.profiler import ProfilerActivity, profile

x = torch.randn(256, 256, device="cuda")
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
    for _ in range(3):
        y = (x @ x).relu()
    torch.cuda.synchronize()
print("events", len(p.key_averages()) > 0, y.shape)
