"""numpyro: a hierarchical model sampled by NUTS, then a guide fitted to it by gradient steps."""
import sys

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

samples = int(sys.argv[1]) if len(sys.argv) > 1 else 100
print("backend", jax.default_backend())
effect = jnp.array([28.0, 8, -3, 7, -1, 1, 18, 12])
spread = jnp.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def schools(effect=None):
    middle = numpyro.sample("middle", dist.Normal(0, 5))
    wide = numpyro.sample("wide", dist.HalfCauchy(5))
    with numpyro.plate("schools", 8):
        raw = numpyro.sample("raw", dist.Normal(0, 1))
        numpyro.sample("effect", dist.Normal(middle + wide * raw, spread), obs=effect)


mcmc = MCMC(NUTS(schools), num_warmup=samples, num_samples=samples, progress_bar=False)
mcmc.run(jax.random.PRNGKey(0), effect=effect)
drawn = mcmc.get_samples()
for name in ("middle", "wide"):
    print(name, f"{float(drawn[name].mean()):.4f} {float(drawn[name].std()):.4f}")
print("raw", [f"{v:.3f}" for v in drawn["raw"].mean(0).tolist()])
guide = AutoNormal(schools)
svi = SVI(schools, guide, numpyro.optim.Adam(0.02), Trace_ELBO(num_particles=8))
result = svi.run(jax.random.PRNGKey(1), samples * 20, effect=effect, progress_bar=False)
print("bound", [f"{float(v):.4f}" for v in result.losses[:: samples * 5]])
print("guide", f"{float(result.params['middle_auto_loc']):.4f}")
