"""JAX alone: a language model in bf16 with layers under scan and remat, trained, then decoding."""
import os
import sys

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_deterministic_ops=true"
import jax
import jax.numpy as jnp

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
print("backend", jax.default_backend())
layers, width, heads, words, length = 8, 512, 8, 1000, 128
key = jax.random.PRNGKey(0)


def init(key):
    a, b, c, d, e = jax.random.split(key, 5)
    draw = lambda k, *shape: jax.random.normal(k, shape) * 0.02
    return {
        "words": draw(a, words, width),
        "layers": {
            "qkv": draw(b, layers, width, 3 * width),
            "out": draw(c, layers, width, width),
            "up": draw(d, layers, width, 4 * width),
            "down": draw(e, layers, 4 * width, width),
        },
    }


def norm(x):
    x = x.astype(jnp.float32)
    return (x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + 1e-6)).astype(jnp.bfloat16)


def apply(params, tokens):
    x = params["words"].astype(jnp.bfloat16)[tokens]
    where = jnp.arange(tokens.shape[1])

    @jax.checkpoint
    def layer(x, w):
        w = jax.tree.map(lambda a: a.astype(jnp.bfloat16), w)
        q, k, v = jnp.split(norm(x) @ w["qkv"], 3, -1)
        cut = lambda a: a.reshape(*a.shape[:2], heads, -1)
        q, k, v = cut(q), cut(k), cut(v)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) / 8.0
        scores = jnp.where(where[:, None] >= where[None], scores, -1e9)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores).astype(jnp.bfloat16), v)
        x = x + mixed.reshape(x.shape) @ w["out"]
        return x + jax.nn.gelu(norm(x) @ w["up"]) @ w["down"], None

    x, _ = jax.lax.scan(layer, x, params["layers"])
    return (norm(x) @ params["words"].astype(jnp.bfloat16).T).astype(jnp.float32)


def loss(params, tokens):
    logits = jax.nn.log_softmax(apply(params, tokens[:, :-1]))
    return -jnp.take_along_axis(logits, tokens[:, 1:, None], -1).mean()


@jax.jit
def step(params, moments, i, key):
    first = jax.random.randint(key, (16, 1), 0, words)
    tokens = (first + 7 * jnp.arange(length + 1)) % words
    value, grads = jax.value_and_grad(loss)(params, tokens)
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, moments[0], grads)
    v = jax.tree.map(lambda a, g: 0.99 * a + 0.01 * g**2, moments[1], grads)
    grow = lambda a, b: a / (1 - b ** (i + 1))
    params = jax.tree.map(
        lambda p, m, v: p - 1e-3 * grow(m, 0.9) / (jnp.sqrt(grow(v, 0.99)) + 1e-8), params, m, v
    )
    return params, (m, v), value


params = init(key)
zeros = jax.tree.map(jnp.zeros_like, params)
moments = (zeros, zeros)
for i in range(steps):
    key, use = jax.random.split(key)
    params, moments, value = step(params, moments, i, use)
    if i % max(1, steps // 6) == 0:
        print("step", i, f"loss {float(value):.6g}")
tokens = jnp.zeros((2, 32), jnp.int32).at[:, :4].set(jnp.array([[5, 12, 19, 26], [1, 8, 15, 22]]))
grow = jax.jit(lambda p, t, i: t.at[:, i].set(apply(p, t)[:, i - 1].argmax(-1)))
for i in range(4, 32):
    tokens = grow(params, tokens, i)
print(tokens.tolist())
