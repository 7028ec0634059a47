"""Trains a small LightGBM classifier on the OpenCL device."""

import lightgbm as lgb
import numpy as np

rng = np.random.default_rng(0)
x = rng.standard_normal((40000, 40)).astype(np.float32)
y = (x[:, 0] + x[:, 1] * x[:, 2] + 0.1 * rng.standard_normal(40000) > 0).astype(int)
params = {"objective": "binary", "device_type": "gpu", "num_leaves": 63, "verbose": -1, "seed": 1,
          "gpu_use_dp": True}
p = lgb.train(params, lgb.Dataset(x, y), 30).predict(x)
print(f"accuracy {((p > 0.5) == y).mean():.6f}, sum {p.sum():.6f}")
