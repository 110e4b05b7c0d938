"""What a fit tells its user: where it fell short of what was asked for, and what to change."""


def shortcomings(estimator, jump=None):
    """Messages of the warnings that a fitted estimator owes.

    `jump` holds the trials on both sides of the temperature where the perplexity jumps over the one
    asked for.
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
    yield from jump_of_perplexity(estimator, jump)


def jump_of_perplexity(estimator, jump):
    """The message where it jumps over the one asked for."""
    if jump is not None:
        cold, hot = jump
        reason = (
            f"at sigma={estimator.sigma_:.6g} centers merge, and the mean perplexity jumps from "
            f"{cold.perplexity:.4g} to {hot.perplexity:.4g}"
            if cold is not hot
            else f"it was missed at all temperatures down or up to sigma={estimator.sigma_:.6g}"
        )
        yield (
            f"perplexity={estimator.perplexity} cannot be reached: {reason}. The model has "
            f"{cold.perplexity:.4g}. Ask for a perplexity on this side, or for fewer clusters."
        )


def _unconverged(estimator):
    if hasattr(estimator, "n_steps_"):
        return (
            "epochs before the objective of batches had stopped falling, up to "
            f"tol={estimator.tol} of the inertia"
        )
    return f"iterations before the centers were within tol={estimator.tol} of a fixed point"


def _remedy(estimator):
    if estimator.sigma_ == 0:
        return "Remove duplicate rows"
    return "Decrease sigma" if estimator.perplexity is None else "Decrease perplexity"
