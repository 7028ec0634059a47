"""JAX: kernels of its own through Pallas, solvers, scans, and checkpoints of gradients; programs
that are compiled ahead, or serialized and read again."""
import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 20


def scaled(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] * 2.0 + jnp.exp(y_ref[...])


@jax.jit
def add(x, y):
    spec = pl.BlockSpec((128, 128), lambda i, j: (i, j))
    return pl.pallas_call(scaled, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(4, 4),
                          in_specs=[spec, spec], out_specs=spec)(x, y)


key = jax.random.key(0)
x, y = jax.random.normal(key, (2, 512, 512))
try:
    print("pallas", f"{float(add(x, y).sum()):.7g}")
except Exception as e:
    print("pallas", type(e).__name__)


@functools.partial(jax.checkpoint, policy=jax.checkpoint_policies.dots_saveable)
def layer(w, x):
    return jnp.tanh(x @ w)


@jax.jit
def grad(ws, x):
    def loss(ws):
        out, _ = jax.lax.scan(lambda x, w: (layer(w, x), None), x, ws)
        return (out**2).mean()
    return jax.grad(loss)(ws)


ws = jax.random.normal(key, (8, 64, 64)) * 0.1
for _ in range(repeats):
    ws = ws - 0.1 * grad(ws, x[:64, :64])
print("scan", f"{float(jnp.abs(ws).sum()):.7g}")
a = x[:128, :128]
spd = a @ a.T + 128 * jnp.eye(128)
print("cholesky", f"{float(jnp.linalg.cholesky(spd).sum()):.6g}")
print("svd", f"{float(jnp.linalg.svd(a, compute_uv=False).sum()):.5g}")
print("eigh", f"{float(jnp.linalg.eigh(spd)[0].sum()):.6g}")
print("fft", f"{float(jnp.abs(jnp.fft.fft2(a)).sum()):.6g}")
print("sort", f"{float(jnp.sort(x.ravel())[1000]):.7g}", int(jnp.argsort(x.ravel())[5]))
compiled = jax.jit(lambda x: (x @ x.T).sum(1)).lower(a).compile()
print("ahead", f"{float(compiled(a)[3]):.6g}")
exported = jax.export.export(jax.jit(lambda x: jnp.sin(x) @ x))(a)
back = jax.export.deserialize(exported.serialize())
print("exported", f"{float(back.call(a).sum()):.6g}")
host = jax.device_put(np.arange(1000.0, dtype=np.float32), jax.devices()[0])
print("callback", jax.jit(lambda v: jax.pure_callback(
    lambda w: np.asarray(w) + 1, jax.ShapeDtypeStruct(v.shape, v.dtype), v).sum())(host))
