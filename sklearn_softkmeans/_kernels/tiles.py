"""A pass over groups of rows that lie close together, each against the centres it may belong to.

A tile has rows that are at most r away from the middle m of their group; the tiles of a group are
shells, so that those inside have a small r. By the triangle inequality the nearest centre of each
of its rows is at most D + r away, with D the distance of m to the centre that is nearest to it, and
any centre at least |m - c| - r. So no row of the tile has a share of c where

    |m - c| >= r + sqrt((D + r)^2 + 2 sigma^2 margin),

with the margin of scores beyond which a share is zero (entmax) or far below rounding (softmax).
What is left is the pass of `steps`, on a few of the centres: the same numbers to rounding, whatever
the tiles. Finding them costs n_groups k d operations, where a full pass takes n k d. Where a single
centre is left all rows belong to it, and their mean says the rest: d operations for the whole tile.
"""

import math
from typing import NamedTuple

import numpy as np

from .._jit import kernel, take, threaded
from .chunks import Chunk, measure_rows, mend_rows
from .distances import Model, scan_scores, score_chunk, view_block
from .shares import NotListed, add_rows, map_soft_rows
from .steps import write_rows


class Tiles(NamedTuple):
    """Tile t has rows starts[t] .. starts[t + 1] - 1, in blocks from row offsets[t] on."""

    starts: np.ndarray  # (n_tiles + 1,) intp
    offsets: np.ndarray  # (n_tiles + 1,) intp, multiples of the lanes of a vector
    groups: np.ndarray  # (n_groups + 1,) intp, group g has tiles groups[g] .. groups[g + 1] - 1
    middles: np.ndarray  # (n_groups, n_features) float64
    radii: np.ndarray  # (n_tiles,) float64, falling in each group
    means: np.ndarray  # (n_tiles, n_features) float64, of the rows
    mass: np.ndarray  # (n_tiles,) float64, weight of the rows
    inertia: np.ndarray  # (n_tiles,) float64, their weighted squared distances to the mean


@threaded
def pass_over_tiles(
    tasks,  # IN   Tasks, each of them one of the slices of groups
    width,  # IN   largest number of rows in a tile, padded
    tiles,  # IN   Tiles
    rows,  # IN   in the order of the tiles, with blocks padded tile by tile
    weights,  # IN   (n_samples,) or empty for unit weights
    model,  # IN   Model
    transposed,  # IN   (n_features, n_clusters) float64, its points
    projection,  # IN   one of the maps of simplex.py
    outputs,  # OUT  Outputs of which sums, mass and totals are wanted
    n_kept,  # INOUT  (n_tasks,) number of pairs of a row and a centre that were computed
):
    n_clusters, n_features = model.points.shape
    real, double = model.bias.dtype, model.norms.dtype
    scores = np.empty(n_clusters * width, real)
    reals = np.empty((6, width), real)
    doubles = np.empty((5, width), double)
    nearest = np.empty(width, np.int32)
    soft = np.empty(width, np.intp)
    column = np.empty(n_clusters, double)
    candidates = np.empty(n_clusters, np.intp)
    sq_distances = np.empty(n_clusters, double)
    near = np.empty(n_clusters, np.intp)
    near_sums = np.empty((n_clusters, n_features), double)
    near_mass = np.empty(n_clusters, double)
    kept = np.empty(n_clusters, np.intp)
    points = np.empty((n_clusters, n_features), double)
    norms = np.empty(n_clusters, double)
    factors = np.empty((n_clusters, n_features), real)
    bias = np.empty(n_clusters, real)
    product = np.empty((n_clusters, n_features), real)
    sums = np.empty((n_clusters, n_features), double)
    mass = np.empty(n_clusters, double)
    unlisted = NotListed(0)  # few clusters are left
    n_groups = tiles.groups.shape[0] - 1
    n_done = 0
    while True:
        task = take(tasks, n_done)
        if task < 0:
            break
        n_done = 1
        for g in range(task * n_groups // tasks.count, (task + 1) * n_groups // tasks.count):
            if tiles.groups[g] == tiles.groups[g + 1]:
                continue
            closest = _distances_of_middle(tiles.middles[g], transposed, sq_distances)
            # Radii fall: what is far from the first tile is far from those inside.
            outer = _limit(tiles.radii[tiles.groups[g]], closest, model)
            n_near = _list_near(outer, sq_distances, near)
            near_mass[:n_near] = 0.0
            near_sums[:n_near] = 0.0
            for t in range(tiles.groups[g], tiles.groups[g + 1]):
                limit = _limit(tiles.radii[t], closest, model)
                k = _filter_near(limit, sq_distances, n_near, near, kept)
                if k == 1:
                    point, totals = model.points[near[kept[0]]], outputs.totals[task]
                    _add_tile(tiles, t, point, near_sums, near_mass, kept[0], totals)
                    continue
                centers = points[:k], norms[:k], factors[:k], bias[:k]
                few = Model(*(centers + model[4:]))
                _gather_centers(near, kept, model, few, sums, mass)
                start, count = tiles.starts[t], tiles.starts[t + 1] - tiles.starts[t]
                first, end = tiles.offsets[t], tiles.offsets[t + 1]
                chunk = _chunk_of(scores, reals, doubles, nearest, soft, k, end - first)
                block, own_norms = view_block(rows, rows.blocks, first, end), rows.norms[first:end]
                # As in `pass_over_rows`: a kernel for both makes all first fits a second slower.
                score_chunk(rows, start, count, few, block, own_norms, chunk.z, column)
                scan_scores(chunk.z, few.bias, chunk.best, chunk.second, chunk.nearest)
                n_soft, all_sure, mean = measure_rows(weights, start, count, own_norms, few, chunk)
                if not all_sure:
                    mend_rows(rows, start, count, few, chunk, mean, candidates)
                n_soft, route = map_soft_rows(
                    unlisted, count, n_soft, few, projection, chunk, reals, doubles[4]
                )
                write_rows(start, count, n_soft, route, model.precision, chunk, outputs, task)
                equal = weights.shape[0] == 0 and count == end - first
                added = product[:k], sums[:k], mass[:k]
                add_rows(rows, start, count, n_soft, route, equal, block, chunk, unlisted, *added)
                _scatter(k, kept, sums, mass, near_sums, near_mass)
                n_kept[task] += k * (end - first)
            _scatter(n_near, near, near_sums, near_mass, outputs.sums[task], outputs.mass[task])


@kernel
def _chunk_of(scores, reals, doubles, nearest, soft, k, w):
    """Views of the buffers for w rows and k centres; the first rows of `reals` stay scratch."""
    return Chunk(
        z=scores[: k * w].reshape((k, w)),
        best=reals[4, :w],
        second=reals[5, :w],
        nearest=nearest[:w],
        error=doubles[0, :w],
        lead=doubles[1, :w],
        objective=doubles[2, :w],
        weights=doubles[3, :w],
        soft=soft[:w],
    )


@kernel
def _distances_of_middle(middle, transposed, sq_distances):
    """Squared distances of a point to all centres; returns the smallest."""
    n_features, n_clusters = transposed.shape
    for j in range(n_clusters):
        sq_distances[j] = 0.0
    for f in range(n_features):
        x = middle[f]
        for j in range(n_clusters):
            difference = transposed[f, j] - x
            sq_distances[j] += difference * difference
    closest = np.inf
    for j in range(n_clusters):
        closest = min(closest, sq_distances[j])
    return closest


@kernel
def _limit(radius, closest, model):
    """Squared distance to the middle beyond which rows of a tile have no share of a centre."""
    nearest = math.sqrt(closest) + radius
    limit = radius + math.sqrt(nearest * nearest + 2.0 * model.margin / model.precision)
    return limit * limit * (1.0 + 1e-9)  # for the rounding of distances


@kernel
def _list_near(limit, sq_distances, near):
    n_near = 0
    for j in range(sq_distances.shape[0]):
        near[n_near] = j
        n_near += not sq_distances[j] > limit
    return n_near


@kernel
def _filter_near(limit, sq_distances, n_near, near, kept):
    """Places in `near` of the centres that are near to a smaller tile."""
    n_kept = 0
    for s in range(n_near):
        kept[n_kept] = s
        n_kept += not sq_distances[near[s]] > limit
    return n_kept


@kernel
def _add_tile(tiles, t, point, sums, mass, s, totals):
    """Add rows that all belong to one centre; distances go by way of their mean."""
    own_mass = tiles.mass[t]
    if own_mass == 0.0:  # its rows may lie anywhere
        return
    sq_distance = 0.0
    for f in range(point.shape[0]):
        mean = tiles.means[t, f]
        sq_distance += (mean - point[f]) * (mean - point[f])
        sums[s, f] += own_mass * mean
    mass[s] += own_mass
    inertia = tiles.inertia[t] + own_mass * sq_distance
    totals[0] += inertia
    totals[1] += inertia
    totals[2] += 0.0 if inertia < np.inf else 1.0


@kernel
def _gather_centers(near, kept, model, few, sums, mass):
    points, norms, factors, bias = model.points, model.norms, model.factors, model.bias
    few_points, few_norms, few_factors, few_bias = few.points, few.norms, few.factors, few.bias
    for s in range(few_norms.shape[0]):
        j = near[kept[s]]
        few_norms[s], few_bias[s], mass[s] = norms[j], bias[j], 0.0
        for f in range(points.shape[1]):
            few_points[s, f], few_factors[s, f] = points[j, f], factors[j, f]
            sums[s, f] = 0.0


@kernel
def _scatter(count, places, sums, mass, all_sums, all_mass):
    """Add the sums of a few centres to those of more."""
    for s in range(count):
        j = places[s]
        all_mass[j] += mass[s]
        for f in range(sums.shape[1]):
            all_sums[j, f] += sums[s, f]
