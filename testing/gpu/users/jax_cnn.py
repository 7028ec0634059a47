"""JAX, flax and optax: a convolutional network with batch normalization, tuned by XLA as it is."""
import sys

import flax.linen as nn
import jax
import numpy as np
import optax

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
print("backend", jax.default_backend())


class Block(nn.Module):
    width: int
    stride: int = 1

    @nn.compact
    def __call__(self, x, train):
        norm = lambda: nn.BatchNorm(use_running_average=not train, momentum=0.9)
        y = nn.Conv(self.width, (3, 3), (self.stride, self.stride), use_bias=False)(x)
        y = nn.relu(norm()(y))
        y = norm()(nn.Conv(self.width, (3, 3), use_bias=False)(y))
        if x.shape != y.shape:
            x = nn.Conv(self.width, (1, 1), (self.stride, self.stride), use_bias=False)(x)
        return nn.relu(x + y)


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train=True):
        x = nn.relu(nn.Conv(32, (3, 3))(x))
        for width, stride in ((32, 1), (64, 2), (128, 2)):
            x = Block(width, stride)(x, train)
        return nn.Dense(10)(x.mean((1, 2)))


random = np.random.default_rng(0)
labels = random.integers(0, 10, 2048)
images = random.normal(size=(2048, 32, 32, 3)).astype(np.float32)
images += labels[:, None, None, None] / 5
net = Net()
variables = net.init(jax.random.PRNGKey(0), images[:1])
params, stats = variables["params"], variables["batch_stats"]
rate = optax.cosine_decay_schedule(3e-3, steps)
tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate))
state = tx.init(params)


@jax.jit
def step(params, stats, state, x, y):
    def loss(p):
        out, new = net.apply({"params": p, "batch_stats": stats}, x, mutable=["batch_stats"])
        return optax.softmax_cross_entropy_with_integer_labels(out, y).mean(), new["batch_stats"]

    (value, stats), grads = jax.value_and_grad(loss, has_aux=True)(params)
    updates, state = tx.update(grads, state, params)
    return optax.apply_updates(params, updates), stats, state, value


for i in range(steps):
    part = slice(i * 64 % 2048, i * 64 % 2048 + 64)
    params, stats, state, value = step(params, stats, state, images[part], labels[part])
    if i == 0:
        print("first loss", f"{float(value):.2f}")
out = jax.jit(lambda p, s, x: net.apply({"params": p, "batch_stats": s}, x, train=False))
right = (np.asarray(out(params, stats, images[:512])).argmax(-1) == labels[:512]).mean()
print("learned", bool(value < 2.2), "finite", bool(np.isfinite(float(value))))
print("# last loss", float(value), "right", float(right))
