"""diffrax, equinox and optax: the rates of predators and prey are found through a stiff solver."""
import sys

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import optax

jax.config.update("jax_enable_x64", True)
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
print("backend", jax.default_backend())
times = jnp.linspace(0, 10, 50)


class Field(eqx.Module):
    rates: jax.Array

    def __call__(self, t, y, args):
        a, b, c, d = jnp.exp(self.rates)
        return jnp.stack([a * y[0] - b * y[0] * y[1], c * y[0] * y[1] - d * y[1]])


@eqx.filter_jit
def solve(field, start):
    return diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Tsit5(),
        0.0,
        10.0,
        0.05,
        start,
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=1e-6, atol=1e-6),
        max_steps=1000,
    ).ys


start = jax.random.uniform(jax.random.PRNGKey(0), (16, 2), minval=0.5, maxval=1.5)
truth = Field(jnp.log(jnp.array([1.1, 0.4, 0.3, 0.8])))
want = jax.vmap(lambda y: solve(truth, y))(start)
field = Field(jnp.log(jnp.array([1.0, 0.5, 0.2, 1.0])))
optimizer = optax.adam(0.03)
state = optimizer.init(eqx.filter(field, eqx.is_array))


@eqx.filter_jit
def step(field, state):
    def loss(field):
        return jnp.mean((jax.vmap(lambda y: solve(field, y))(start) - want) ** 2)

    value, grads = eqx.filter_value_and_grad(loss)(field)
    updates, state = optimizer.update(grads, state)
    return eqx.apply_updates(field, updates), state, value


for i in range(steps):
    field, state, value = step(field, state)
    if i % max(1, steps // 5) == 0:
        print("step", i, f"loss {float(value):.6f}")
print("rates", [f"{v:.4f}" for v in jnp.exp(field.rates).tolist()])
