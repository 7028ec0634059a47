"""PyTorch, JAX and CuPy in one process share tensors by DLPack while a network is trained."""
import os
import sys

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_deterministic_ops=true"
import cupy as cp
import jax
import jax.numpy as jnp
import torch

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
torch.use_deterministic_algorithms(True, warn_only=True)
torch.manual_seed(0)
print("backend", jax.default_backend(), torch.cuda.get_device_name() != "")


@jax.jit
def features(x):
    return jnp.concatenate([jnp.sin(x), jnp.cos(2 * x)], -1).astype(jnp.float32)


double = cp.ElementwiseKernel("float32 a", "float32 b", "b = 2 * a + 1", "double_it")
net = torch.nn.Sequential(
    torch.nn.Linear(32, 128), torch.nn.Tanh(), torch.nn.Linear(128, 1)
).cuda()
optimizer = torch.optim.Adam(net.parameters(), 1e-3)
for step in range(steps):
    x = torch.randn(256, 16, device="cuda")
    seen = torch.from_dlpack(features(jnp.from_dlpack(x)))
    loss = (net(seen) - x.sum(1, keepdim=True) / 4).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % max(1, steps // 6) == 0:
        print("step", step, f"loss {loss.item():.7g}")
weights = net[0].weight.detach()
other = cp.from_dlpack(weights)
changed = torch.from_dlpack(double(other))
torch.cuda.synchronize()
print("cupy", torch.equal(changed, weights * 2 + 1), f"{float(cp.linalg.norm(other)):.6f}")
other *= 0.5
cp.cuda.runtime.deviceSynchronize()
print("in place", f"{weights.double().sum().item():.9g}")
array = jnp.from_dlpack(weights.contiguous())
print("jax", f"{float(jnp.abs(array).max()):.7g}", f"{float(jnp.linalg.svd(array)[1][0]):.4f}")
