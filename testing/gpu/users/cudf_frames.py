"""Data frames with cuDF: groups, joins, text, dates, four file formats, a function of one's own."""

import hashlib
import pathlib
import sys
import tempfile

import cudf
import numpy as np


def show(name, what):
    text = what.to_pandas().to_csv()
    print(name, len(what), hashlib.sha256(text.encode()).hexdigest()[:16])


def half_of(row):
    return row["v"] * 2 + row["w"] if row["w"] > 500 else -row["v"]


def main():
    n = int(2e6) // (int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    r = np.random.default_rng(7)
    start, seconds = np.datetime64("2020-01-01"), r.integers(0, 86400 * 900, n)
    a = cudf.DataFrame(
        {
            "k": r.integers(0, 50000, n),
            "v": r.standard_normal(n).round(3),
            "w": r.integers(0, 1000, n),
            "d": start + seconds.astype("timedelta64[s]"),
        }
    )
    names = [f"item {i % 977:03d}-{i}" for i in range(50000)]
    b = cudf.DataFrame({"k": np.arange(50000), "name": names})
    show("groups", a.groupby("k").agg({"v": ["min", "max", "count"], "w": ["sum"]}).sort_index())
    joined = a.merge(b, on="k", how="inner").sort_values(["k", "w", "v", "d"])
    show("join", joined.head(100000).reset_index(drop=True))
    text = b["name"].str
    show("split", text.upper().str.replace("ITEM", "x").str.split("-", expand=True).head(5000))
    show("found", b["name"][text.contains("1[0-9]2-")])
    months = a.assign(m=a.d.dt.month, y=a.d.dt.year)
    show("dates", months.groupby(["y", "m"]).w.sum().sort_index())
    folder = pathlib.Path(tempfile.mkdtemp())
    a.to_parquet(folder / "a.parquet", compression="snappy")
    again = cudf.read_parquet(folder / "a.parquet")
    print("parquet", len(again), bool((again.v == a.v).all()), bool((again.d == a.d).all()))
    a.head(200000).to_csv(folder / "a.csv", index=False)
    show("csv", cudf.read_csv(folder / "a.csv").w)
    b.to_json(folder / "b.json", orient="records", lines=True)
    show("json", cudf.read_json(folder / "b.json", lines=True).head(3000))
    a.to_orc(folder / "a.orc")
    print("orc", int(cudf.read_orc(folder / "a.orc").w.sum()))
    show("applied", a.head(100000)[["v", "w"]].apply(half_of, axis=1))
    show("rolling", a.v.head(50000).rolling(7).max())
    show("quantiles", a.v.quantile([0.1, 0.5, 0.9]))
    wide = a.head(20000).assign(c=a.w % 5)
    show("pivot", wide.pivot_table(index="w", columns="c", values="v", aggfunc="max").sort_index())
    show("counts", a.w.value_counts().sort_index())
    print("out", a.to_pandas().v.sum().round(3), a.to_arrow().num_rows, int(a.w.values.sum()))


main()
