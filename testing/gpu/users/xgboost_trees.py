"""XGBoost on the GPU: trees from NumPy, CuPy and batches, ranking, importances, and predictions."""
import sys

import cupy
import numpy as np
import xgboost as xgb

rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 80
random = np.random.default_rng(0)
x = random.normal(size=(100000, 30)).astype(np.float32)
y = np.sin(x[:, 0] * 2) + x[:, 1] * x[:, 2] + 0.1 * random.normal(size=len(x))
common = {"device": "cuda", "tree_method": "hist", "max_depth": 8, "seed": 0}
train = xgb.QuantileDMatrix(x[:80000], y[:80000])
test = xgb.QuantileDMatrix(x[80000:], y[80000:], ref=train)
seen = {}
model = xgb.train(common, train, rounds, evals=[(test, "test")], evals_result=seen,
                  verbose_eval=False)
print("numbers", [f"{v:.5g}" for v in seen["test"]["rmse"][:: max(1, rounds // 4)]])
there = cupy.asarray(x[80000:])
out = model.inplace_predict(there)
print("in place", type(out).__name__, f"{float(cupy.asarray(out).astype(cupy.float64).mean()):.6g}")
classes = np.digitize(y, [-1, 0, 1])
many = xgb.XGBClassifier(n_estimators=rounds // 2, subsample=0.8, sampling_method="gradient_based",
                         **common)
many.fit(cupy.asarray(x[:50000]), cupy.asarray(classes[:50000]))
right = (cupy.asnumpy(many.predict(there)) == classes[80000:]).mean()
print("classes", f"{right:.4f}", many.get_booster().num_boosted_rounds())
groups = np.repeat(np.arange(500), 100)
rank = xgb.XGBRanker(objective="rank:ndcg", n_estimators=20, **common)
rank.fit(x[:50000], np.digitize(y[:50000], [0, 1, 2]), qid=groups)
print("ranks", f"{float(rank.predict(x[:1000]).astype(np.float64).std()):.4g}")
shap = model.predict(xgb.DMatrix(x[:500]), pred_contribs=True)
print("shares", shap.shape, f"{float(np.abs(shap).sum(0).argmax())}")
