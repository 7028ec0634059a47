"""LightGBM on the GPU, which is OpenCL: gradient-boosted trees for classes and for numbers."""
import sys

import lightgbm as lgb
import numpy as np

rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 60
random = np.random.default_rng(0)
x = random.normal(size=(60000, 28)).astype(np.float32)
target = np.sin(x[:, 0] * 2) + x[:, 1] * x[:, 2] + 0.1 * random.normal(size=len(x))
for objective, y in (("regression", target), ("binary", (target > 0).astype(int))):
    settings = {"objective": objective, "device_type": "gpu", "gpu_use_dp": True, "num_leaves": 63,
                "max_bin": 63, "learning_rate": 0.1, "verbose": -1, "num_threads": 4, "seed": 0,
                "deterministic": True}
    model = lgb.train(settings, lgb.Dataset(x[:50000], y[:50000]), rounds)
    out = model.predict(x[50000:])
    print(objective, model.num_trees(), f"{((out - y[50000:]) ** 2).mean():.6g}")
