"""JAX: jit, grad, scan and a small training loop."""
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"
)
import jax
import jax.numpy as jnp

print("device", jax.devices()[0].platform, len(jax.devices()))
k = jax.random.PRNGKey(0)
x = jax.random.normal(k, (256, 128))
print("jit", float(jax.jit(lambda a: (a @ a.T).sum())(x)).hex())
print("grad", float(jnp.abs(jax.grad(lambda a: jnp.tanh(a @ a.T).mean())(x)).sum()).hex())
c, ys = jax.lax.scan(lambda c, v: (c * 0.9 + v, c.sum()), jnp.zeros(128), x)
print("scan", float(ys.sum()).hex())


def init(key, sizes):
    keys = jax.random.split(key, len(sizes))
    return [
        (jax.random.normal(q, (a, b)) / a**0.5, jnp.zeros(b))
        for q, a, b in zip(keys, sizes, sizes[1:])
    ]


def net(p, v):
    for w, b in p[:-1]:
        v = jax.nn.relu(v @ w + b)
    return v @ p[-1][0] + p[-1][1]


def loss(p, v, t):
    return -jnp.take_along_axis(jax.nn.log_softmax(net(p, v)), t[:, None], 1).mean()


@jax.jit
def step(p, v, t):
    value, g = jax.value_and_grad(loss)(p, v, t)
    return jax.tree.map(lambda a, b: a - 0.1 * b, p, g), value


params = init(k, [128, 256, 10])
t = jnp.arange(256) % 10
for i in range(50):
    params, value = step(params, x, t)
    if i % 10 == 9:
        print("loss", i, float(value).hex())
print("fft", float(jnp.abs(jnp.fft.fft(x)).sum()).hex())
print("svd", f"{float(jnp.linalg.svd(x, compute_uv=False).sum()):.4f}")
print(
    "conv",
    float(
        jax.lax.conv(x.reshape(1, 8, 64, 64), jnp.ones((4, 8, 3, 3)), (1, 1), "SAME").sum()
    ).hex(),
)
