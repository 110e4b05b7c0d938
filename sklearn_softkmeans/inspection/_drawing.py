"""What the displays share. matplotlib is imported when something is drawn."""

import numpy as np

# Okabe and Ito's colors without black, told apart by colour-blind readers.
PALETTE = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442"]
MARKERS = "os^Dv<>P"


def axes_for(ax, caller):
    """The given axes, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{caller} draws with matplotlib, which is not installed. Install it, or the package "
            'with its extra: pip install "sklearn-softkmeans[plot]".'
        ) from error
    return plt.subplots()[1]


def color(j):
    return PALETTE[j % len(PALETTE)]


def marker(j):
    return MARKERS[j % len(MARKERS)]


def rgb_of(n_colors):
    """The first colors as numbers, of shape (n_colors, 3)."""
    codes = [color(j).lstrip("#") for j in range(n_colors)]
    return np.array([[int(code[i : i + 2], 16) for i in (0, 2, 4)] for code in codes]) / 255.0


def names_of_columns(X):
    """Column names of a data frame as labels; None for anything else."""
    return [str(name) for name in X.columns] if hasattr(X, "columns") else None
