"""Learning with cuML: clusters, decompositions, regressions, a forest, neighbours, an embedding."""

import sys

import cupy as cp
import numpy as np
from cuml.cluster import DBSCAN, KMeans
from cuml.decomposition import PCA
from cuml.ensemble import RandomForestClassifier
from cuml.linear_model import LinearRegression, LogisticRegression
from cuml.manifold import UMAP
from cuml.neighbors import KNeighborsClassifier, NearestNeighbors
from cuml.svm import SVC


def main():
    each = 4000 // (int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    r = np.random.default_rng(3)
    parts = [r.standard_normal((each, 20)) + 4 * r.standard_normal(20) for _ in range(6)]
    x = np.vstack(parts).astype(np.float32)
    y = np.repeat(np.arange(6), each).astype(np.int32)
    k = KMeans(n_clusters=6, random_state=1, n_init=1).fit(x)
    print("k-means", np.bincount(cp.asnumpy(k.labels_)).tolist())
    print("dbscan", int(DBSCAN(eps=4.0, min_samples=10).fit(x[: each + each // 2]).labels_.max()))
    p = PCA(n_components=3).fit(x)
    print("components", np.round(cp.asnumpy(p.explained_variance_), 2).tolist())
    line = LinearRegression().fit(x, x @ np.arange(20, dtype=np.float32))
    print("line", np.round(cp.asnumpy(line.coef_), 2).tolist())
    print("logistic", round(float(LogisticRegression(max_iter=200).fit(x, y).score(x, y)), 3))
    forest = RandomForestClassifier(n_estimators=20, max_depth=8, random_state=2, n_streams=1)
    print("forest", round(float(forest.fit(x, y).score(x, y)), 3))
    far, which = NearestNeighbors(n_neighbors=5).fit(x).kneighbors(x[:500])
    print("neighbours", int(cp.asnumpy(which).sum()), round(float(far.sum()), 1))
    near = KNeighborsClassifier(n_neighbors=5).fit(x, y)
    print("classes", round(float(near.score(x[:2000], y[:2000])), 3))
    odd = (y[::8] % 2).astype(np.float32)
    print("vectors", round(float(SVC(kernel="rbf").fit(x[::8], odd).score(x[::8], odd)), 3))
    flat = UMAP(n_neighbors=10, n_epochs=50, random_state=4).fit_transform(x[::6])
    print("embedding", flat.shape, bool(np.isfinite(cp.asnumpy(flat)).all()))


main()
