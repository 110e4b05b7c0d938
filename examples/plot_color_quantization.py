"""
A photograph from a palette of twelve colors
============================================

K-means on the colors of pixels gives a palette, and replacing every pixel by its color of the
palette quantises the picture: smooth areas break into bands. With shares of clusters every pixel
may mix the colors of the palette instead, ``shares @ palette``, as paint is mixed from tubes.
"""

# %%
# Palettes
# --------
#
# The palette is fitted to 5000 of the 273 280 pixels; colors are numbers from 0 to 1, and so is
# sigma. All three models start from the same colors.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

picture = load_sample_image("china.jpg").astype(np.float32) / 255
pixels = picture.reshape(-1, 3)
sample = np.random.default_rng(0).choice(pixels, 5000, replace=False)

N_COLORS = 12
hard = SoftKMeans(N_COLORS, sigma=0, init="annealing").fit(sample)
models = {
    "K-means": hard,
    "EntmaxKMeans": EntmaxKMeans(N_COLORS, perplexity=1.3, init=hard.cluster_centers_).fit(sample),
    "SoftKMeans": SoftKMeans(N_COLORS, perplexity=1.3, init=hard.cluster_centers_).fit(sample),
}

# %%
# Mixing
# ------
#
# The error is the root mean square over pixels and channels. Both soft models have the same
# perplexity, 1.3 colors to a pixel on average; entmax reaches it with more pixels of one
# color.

mixed, errors = {"original": picture}, {"original": 0.0}
for name, model in models.items():
    shares = model.transform(pixels)
    mixed[name] = (shares @ model.cluster_centers_).reshape(picture.shape)
    errors[name] = np.sqrt(np.mean((mixed[name] - picture) ** 2))
    tubes = np.count_nonzero(shares > 0.01, axis=1)
    print(f"{name:12} sigma {model.sigma_:.3f}, error {errors[name]:.4f}, "
          f"{np.mean(tubes == 1):4.0%} of the pixels of one color, "
          f"{np.mean(tubes > 3):4.0%} of more than three (shares above 0.01)")  # fmt: skip

# %%
# Side by side
# ------------
#
# Below each picture is its palette. Look at the sky: the edge
# that K-means draws through it is blurred in the mixtures.

figure, axes = plt.subplots(
    4, 2, figsize=(12, 9.6), height_ratios=[12, 1, 12, 1], layout="constrained"
)
for i, (name, image) in enumerate(mixed.items()):
    ax, below = axes[2 * (i // 2) : 2 * (i // 2) + 2, i % 2]
    ax.imshow(np.clip(image, 0, 1))
    ax.set_title(name if name == "original" else f"{name}, error {errors[name]:.3f}")
    if name in models:
        palette = models[name].cluster_centers_
        order = palette.sum(axis=1).argsort()
        below.imshow(np.clip(palette[order], 0, 1)[np.newaxis], aspect="auto")
    for axis in (ax, below):
        axis.axis("off")

plt.show()
