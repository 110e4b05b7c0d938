"""Run as a process of its own: prints how long imports and the first fits of iris take.

python benchmarks/first_fit.py SoftKMeans
"""

import json
import sys
from time import perf_counter


def main(name):
    start = perf_counter()
    import sklearn.cluster

    after_sklearn = perf_counter()
    module = sklearn.cluster
    if name != "KMeans":
        import sklearn_softkmeans

        module = sklearn_softkmeans
    after_ours = perf_counter()

    from sklearn.datasets import load_iris

    X = load_iris(return_X_y=True)[0]
    model = getattr(module, name)(3, n_init=1, random_state=0)
    before = perf_counter()
    model.fit(X)
    middle = perf_counter()
    model.fit(X)
    after = perf_counter()
    times = {
        "sklearn": after_sklearn - start,
        "ours": after_ours - after_sklearn,
        "fit": middle - before,
        "again": after - middle,
    }
    print(json.dumps(times))


if __name__ == "__main__":
    main(*sys.argv[1:])
