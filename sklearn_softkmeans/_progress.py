"""What is told of a fit while it runs: a line for each iteration, and scikit-learn's callbacks."""

from contextlib import contextmanager


class Progress:
    """The report of one run, as `solve` calls it after each pass over the data.

    Parameters
    ----------
    estimator : object
        Its `verbose` says whether lines are printed; it has the callbacks of the fit in progress.
    problem : Problem
        Has the frame that numbers are given in.
    sigma : float
        Temperature of the run, in the frame.
    name : int or str
        What the run is called.
    """

    def __init__(self, estimator, problem, sigma, name):
        self._estimator = estimator
        self._problem = problem
        self._sigma = sigma
        self._name = name

    def __call__(self, n_iter, statistics, shift, centers):
        """Report, and return whether a callback asks to stop."""
        if self._estimator.verbose:
            print(self._line(n_iter, statistics, shift))
        root = getattr(self._estimator, "_callback_fit_ctx", None)  # scikit-learn's own name
        if root is None:
            return False
        task = root.subcontext(task_name=f"run {self._name}, iteration {n_iter}")
        X = None if self._problem.in_blocks else self._problem.X
        task.call_on_fit_task_begin(estimator=self._estimator, X=X)
        return task.call_on_fit_task_end(
            estimator=self._estimator,
            X=X,
            reconstruction_attributes=lambda: self._attributes(centers),
        )

    def _line(self, n_iter, statistics, shift):
        unit = self._problem.unit
        square = unit * unit * self._problem.weight_unit
        objective, inertia = statistics.objective, statistics.inertia
        softness = 1.0 - objective / inertia if inertia > 0.0 else 0.0
        step = "discarded" if shift is None else f"center shift {shift * unit:.3g}"
        return (
            f"run {self._name}, iteration {n_iter}: sigma {self._sigma * unit:.4g}, objective "
            f"{objective * square:.9g}, inertia {inertia * square:.9g}, softness {softness:.2%}, "
            f"{step}"
        )

    def _attributes(self, centers):
        """What makes the estimator ready to predict, as if the fit had ended here."""
        return {
            "cluster_centers_": self._problem.out_of_frame(centers).astype(self._problem.dtype),
            "sigma_": float(self._sigma * self._problem.unit),
        }


@contextmanager
def callbacks_of(estimator, X=None, y=None):
    """Tell the estimator's callbacks, if it has any, that the fit begins, and that it has ended."""
    if not getattr(estimator, "_skl_callbacks", None):
        yield
        return
    root = estimator._init_callback_context(max_subtasks=None)
    root.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
    yield
    root.call_on_fit_task_end(estimator=estimator, X=X, y=y, reconstruction_attributes={})
