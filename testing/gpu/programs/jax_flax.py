"""JAX with flax and optax: a small network trained for 30 steps, its loss bit for bit."""
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"
)
try:
    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    import optax
except ImportError as e:
    print("skipped:", e)
    raise SystemExit from None


class Net(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(16, (3, 3))(x))
        x = nn.LayerNorm()(nn.avg_pool(x, (2, 2), (2, 2)))
        x = nn.relu(nn.Dense(64)(x.reshape(x.shape[0], -1)))
        return nn.Dense(10)(x)


key = jax.random.PRNGKey(0)
images = jax.random.normal(key, (64, 16, 16, 3))
labels = jnp.arange(64) % 10
net = Net()
params = net.init(key, images)
tx = optax.adam(1e-3)
state = tx.init(params)
print("parameters", sum(p.size for p in jax.tree.leaves(params)))


@jax.jit
def step(params, state):
    def loss(p):
        return optax.softmax_cross_entropy_with_integer_labels(net.apply(p, images), labels).mean()
    value, grads = jax.value_and_grad(loss)(params)
    updates, state = tx.update(grads, state)
    return optax.apply_updates(params, updates), state, value


for i in range(30):
    params, state, value = step(params, state)
    if i % 5 == 4:
        print("loss", i, float(value).hex())
