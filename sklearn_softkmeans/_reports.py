"""What a fit tells its user: where it fell short of what was asked for, and what to change."""


def shortcomings(estimator, around=()):
    """Messages of the warnings that a fitted estimator owes.

    `around` holds the trials around a perplexity that could not be reached: those on both sides of
    the temperature where it jumps, or the last one where all are on one side.
    """
    if estimator.stop_reason_ == "max_iter":
        yield (
            f"{type(estimator).__name__} stopped after max_iter={estimator.max_iter} "
            f"{_unconverged(estimator)}. Increase max_iter or tol."
        )
    if estimator.n_distinct_clusters_ < estimator.n_clusters:
        yield (
            f"Number of distinct cluster centers found: {estimator.n_distinct_clusters_}, fewer "
            f"than n_clusters={estimator.n_clusters}, at sigma={estimator.sigma_:.6g}. The others "
            f"merged with them or hold no rows. {_remedy(estimator)}, or ask for fewer clusters: X "
            "may have fewer different rows than n_clusters."
        )
    yield from unreached_perplexity(estimator, around)


def shortcomings_of_stream(estimator, n_distinct, around):
    """Messages of the warnings that are owed after the first batch."""
    if n_distinct < estimator.n_clusters:
        yield (
            f"Number of distinct cluster centers after the first batch: {n_distinct}, fewer than "
            f"n_clusters={estimator.n_clusters}, at sigma={estimator.sigma_:.6g}. Centers that are "
            f"equal stay so. {_remedy(estimator)}, or begin with a batch of more different rows."
        )
    yield from unreached_perplexity(estimator, around)


def unreached_perplexity(estimator, around):
    """The message of trials around the one asked for, none of which has it."""
    if around:
        yield _unreached(estimator, *around)


def _unconverged(estimator):
    if hasattr(estimator, "n_steps_"):
        return (
            "epochs before the objective of batches had stopped falling, up to "
            f"tol={estimator.tol} of the inertia"
        )
    return f"iterations before the centers were within tol={estimator.tol} of a fixed point"


def _unreached(estimator, trial, hot=None):
    asked = f"perplexity={estimator.perplexity} cannot be reached"
    if hot is None:
        too_high = trial.perplexity > estimator.perplexity
        return (
            f"{asked}: {'down' if too_high else 'up'} to sigma={estimator.sigma_:.6g} the mean "
            f"perplexity is no closer than {trial.perplexity:.4g}, which the model has. Rows lie "
            "equally far from centers, or centers are equal. Ask for a perplexity that is "
            f"{'larger' if too_high else 'smaller'}, or for fewer clusters."
        )
    return (
        f"{asked}: at sigma={estimator.sigma_:.6g} centers merge, and the mean perplexity jumps "
        f"from {trial.perplexity:.4g} to {hot.perplexity:.4g}. The model has "
        f"{trial.perplexity:.4g}. Ask for a perplexity on one side of the jump, or for fewer "
        "clusters."
    )


def _remedy(estimator):
    if estimator.sigma_ == 0:
        return "Remove duplicate rows"
    return "Decrease sigma" if estimator.perplexity is None else "Decrease perplexity"
