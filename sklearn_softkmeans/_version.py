"""The version, and what a saved model says of the one that wrote it."""

import warnings

from sklearn.exceptions import InconsistentVersionWarning

__version__ = "0.1.0.dev0"


class VersionedState:
    """Warn where a model was saved by another version, as scikit-learn does for its own."""

    def __getstate__(self):
        return {**super().__getstate__(), "_version": __version__}

    def __setstate__(self, state):
        version = state.get("_version", "unknown")
        if version != __version__:
            warnings.warn(
                InconsistentVersionWarning(
                    estimator_name=type(self).__name__,
                    current_sklearn_version=__version__,
                    original_sklearn_version=version,
                ),
                stacklevel=2,
            )
        super().__setstate__({name: state[name] for name in state if name != "_version"})
