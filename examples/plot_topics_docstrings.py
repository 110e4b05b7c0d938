"""
Topics of the documentation of scikit-learn and scipy
=====================================================

The docstrings of all public functions and classes of both libraries are a corpus that is installed
already. As TF-IDF they are a sparse matrix, which :class:`~sklearn_softkmeans.EntmaxKMeans` takes
as it is. The shares of its topics are sparse too: most texts have one topic, some have more.
"""

# %%
# The corpus
# ----------

import importlib
import inspect
import pkgutil

import matplotlib.pyplot as plt
import numpy as np
import scipy
import sklearn
from sklearn.feature_extraction.text import TfidfVectorizer

from sklearn_softkmeans import EntmaxKMeans


def public_modules(package):
    """Public subpackages with names to export, `scipy.linalg` for one."""
    for module in pkgutil.iter_modules(package.__path__):
        if module.ispkg and not module.name.startswith("_") and module.name != "tests":
            yield importlib.import_module(f"{package.__name__}.{module.name}")


def docstrings(package):
    """Texts by the name of what they document, each once."""
    for module in public_modules(package):
        for name in getattr(module, "__all__", []):
            if name.startswith("Halving"):  # experimental, an error unless it is enabled
                continue
            member = getattr(module, name, None)
            if inspect.isroutine(member) or inspect.isclass(member):
                text = inspect.getdoc(member) or ""
                if len(text) > 300:
                    yield f"{module.__name__}.{name}", text


corpus = dict(docstrings(scipy)) | dict(docstrings(sklearn))
names = np.array(list(corpus))
vectorizer = TfidfVectorizer(
    sublinear_tf=True, min_df=8, max_df=0.3, stop_words="english", token_pattern=r"[a-z]{4,}"
)
X = vectorizer.fit_transform(corpus.values())
words = vectorizer.get_feature_names_out()
print(
    f"{X.shape[0]} docstrings, {X.shape[1]} words, {X.nnz / np.prod(X.shape):.1%} of X is not zero"
)

# %%
# Topics
# ------
#
# Sixteen topics, at 1.1 of them to a text. The words of a topic are the largest coordinates of its
# center.

N_TOPICS = 16
model = EntmaxKMeans(
    N_TOPICS, perplexity=1.1, init="exchange", sparse_output=True, random_state=0
).fit(X)
shares = model.transform(X)
top_words = words[np.argsort(-model.cluster_centers_, axis=1)[:, :5]]
n_topics_of_text = np.diff(shares.indptr)
print(f"shares: {type(shares).__name__} of {shares.shape}, {shares.nnz} stored; "
      f"{np.mean(n_topics_of_text == 1):.0%} of the texts have one topic")  # fmt: skip
for j in np.argsort(-model.cluster_mass_):
    print(f"{model.cluster_mass_[j]:6.1f} texts: {', '.join(top_words[j])}")

# %%
# Between topics
# --------------
#
# Texts that are shared most evenly by two topics or more.

largest = shares.max(axis=1).toarray().ravel()
for i in np.argsort(largest)[:6]:
    row = slice(shares.indptr[i], shares.indptr[i + 1])
    parts = sorted(zip(shares.data[row], shares.indices[row], strict=True), reverse=True)
    print(names[i])
    for share, j in parts[:3]:
        print(f"    {share:.2f} {', '.join(top_words[j][:4])}")

# %%
# Where topics live
# -----------------
#
# Shares summed over the modules that documents come from, as parts of each module. The model was
# told no names of modules, and finds many of them. The largest topic has no subject: it takes
# what is left of nearly all modules of scipy.

modules = np.array([".".join(name.split(".")[:2]) for name in names])
counts = {module: np.sum(modules == module) for module in np.unique(modules)}
shown = [module for module, count in counts.items() if count >= 25]
table = np.stack([shares[np.flatnonzero(modules == module)].mean(axis=0) for module in shown])
order = np.lexsort([-table.max(axis=0), table.argmax(axis=0)])  # along the diagonal

figure, ax = plt.subplots(figsize=(11, 7.5), layout="constrained")
image = ax.imshow(table[:, order].T, cmap="cividis", vmin=0, vmax=1, aspect="auto")
ax.set_yticks(range(N_TOPICS), [", ".join(top_words[j][:4]) for j in order])
ax.set_xticks(range(len(shown)), shown, rotation=45, ha="right", rotation_mode="anchor")
figure.colorbar(image, ax=ax, label="part of the module's texts")

plt.show()
