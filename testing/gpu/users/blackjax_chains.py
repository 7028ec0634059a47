"""blackjax: sixty-four chains at once sample a logistic regression after a window of adaptation."""
import sys

import blackjax
import jax
import jax.numpy as jnp

samples = int(sys.argv[1]) if len(sys.argv) > 1 else 60
print("backend", jax.default_backend())
key = jax.random.PRNGKey(0)
truth = jnp.array([1.0, -2.0, 0.5, 0.0])
x = jax.random.normal(key, (500, 4))
y = jax.random.bernoulli(jax.random.PRNGKey(1), jax.nn.sigmoid(x @ truth)).astype(jnp.float32)


def density(w):
    z = x @ w
    return jnp.sum(y * z - jax.nn.softplus(z)) - 0.5 * jnp.sum(w**2)


warm = blackjax.window_adaptation(blackjax.nuts, density)
(state, settings), _ = warm.run(jax.random.PRNGKey(2), jnp.zeros(4), num_steps=samples * 4)
print("step", f"{float(settings['step_size']):.3f}")
kernel = blackjax.nuts(density, **settings)


def chain(key, start):
    def one(state, key):
        state, info = kernel.step(key, state)
        return state, state.position

    return jax.lax.scan(one, kernel.init(start), jax.random.split(key, samples))[1]


starts = state.position + 0.1 * jax.random.normal(jax.random.PRNGKey(3), (64, 4))
drawn = jax.jit(jax.vmap(chain))(jax.random.split(jax.random.PRNGKey(4), 64), starts)
print("mean", [f"{v:.3f}" for v in drawn.mean((0, 1)).tolist()])
print("deviation", [f"{v:.3f}" for v in drawn.std((0, 1)).tolist()])
