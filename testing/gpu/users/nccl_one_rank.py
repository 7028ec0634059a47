"""torch.distributed with NCCL in a world of one: collectives, and DistributedDataParallel."""
import faulthandler
import os
import socket
import sys

import torch
import torch.distributed as dist
from torch import nn

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
faulthandler.enable()
torch.use_deterministic_algorithms(True, warn_only=True)
with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
dist.init_process_group("nccl", rank=0, world_size=1, device_id=torch.device("cuda:0"))
x = torch.arange(1 << 20, dtype=torch.float32, device="cuda")
dist.all_reduce(x)
print("all_reduce", x.double().sum().item())
parts = [torch.empty_like(x)]
dist.all_gather(parts, x)
print("all_gather", torch.equal(parts[0], x))
dist.broadcast(x, 0)
dist.barrier()
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 16)).cuda()
net = nn.parallel.DistributedDataParallel(net, device_ids=[0])
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(steps):
    data = torch.randn(64, 256, device="cuda")
    loss = (net(data) - data[:, :16]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained", f"{loss.item():.9g}")
dist.destroy_process_group()
