"""Training loops of an autoencoder, alone and with clusters: tensors in, losses out."""

import math

import torch

from ._distances import sq_distances
from ._losses import row_free_energy
from ._simplex import regulariser


def embed_rows(encoder, rows, batch_size):
    """What the encoder makes of the rows, in evaluation mode and without gradients."""
    encoder.eval()
    with torch.no_grad():
        return torch.cat([encoder(batch) for batch in rows.split(batch_size)])


def pretrain(networks, optimizer, rows, batch_size, n_epochs):
    """Train the autoencoder on the reconstruction; its mean in each epoch."""
    variance = total_variance(rows)
    history = []
    for _ in range(n_epochs):
        networks.train()
        losses = []
        for ids in batches(len(rows), batch_size):
            _, loss = reconstruct(networks, rows[ids], variance)
            descend(optimizer, loss)
            losses.append(float(loss.detach()))
        history.append(sum(losses) / len(losses))
    return history


def reconstruct(networks, rows, variance):
    """Embedded rows, and the squared error of their reconstruction over the variance."""
    encoder, decoder = networks
    embedded = encoder(rows)
    return embedded, (decoder(embedded) - rows).square().sum(-1).mean() / variance


def descend(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def batches(n_rows, batch_size):
    """Random batches of almost equal sizes: none of a few rows, whose spread means nothing."""
    return torch.randperm(n_rows).tensor_split(math.ceil(n_rows / batch_size))


def total_variance(rows):
    """Mean squared distance of rows to their mean; 1 if all are equal."""
    variance = float((rows - rows.mean(0)).square().sum(-1).mean())
    return variance if variance > 0.0 else 1.0


class JointTraining:
    """State of a joint training: networks, centers, and what the last full step left.

    `full_step` looks at all rows and `network_steps` at batches, with the targets of the former.
    """

    def __init__(self, networks, optimizer, layer, rows, batch_size):
        self.networks, self.optimizer, self.layer = networks, optimizer, layer
        self.rows, self.batch_size = rows, batch_size
        self.variance = total_variance(rows)
        self.labels = None

    @torch.no_grad()
    def full_step(self, sigma):
        """E-step and centroid step on all rows, and their targets; the share of changed labels."""
        embedded = embed_rows(self.networks[0], self.rows, self.batch_size).double()
        self.mean, self.spread = embedded.mean(0), total_variance(embedded)
        self.layer.set_sigma(sigma * math.sqrt(self.spread))
        self.layer.eval()
        resp = self.layer(embedded)
        dead = (resp.sum(0) < 1.0).nonzero().flatten().tolist()
        if dead:
            self.layer.relocate(embedded, dead)
            resp = self.layer(embedded)
        mass = resp.sum(0)
        alive = mass > 0.0
        means = (resp.T @ embedded)[alive] / mass[alive, None]
        self.layer.centers[alive] = means
        self.responsibilities = self.layer(embedded)
        squares = self.responsibilities.square()
        self.targets = squares / squares.sum(-1, keepdim=True)
        labels, before = self.responsibilities.argmax(-1), self.labels
        self.labels = labels
        return 1.0 if before is None else float((labels != before).double().mean())

    def network_steps(self, cluster_weight):
        """An epoch of the networks; the means of both terms."""
        self.networks.train()
        totals = torch.zeros(2, dtype=torch.float64)
        parts = batches(len(self.rows), self.batch_size)
        for ids in parts:
            embedded, reconstruction = reconstruct(self.networks, self.rows[ids], self.variance)
            clustering = self._clustering(embedded.double(), self.targets[ids])
            descend(self.optimizer, reconstruction + cluster_weight * clustering)
            totals += torch.stack([reconstruction.detach().double(), clustering.detach()]).cpu()
        return (totals / len(parts)).tolist()

    def _clustering(self, embedded, targets):
        """Mean Fenchel-Young loss of the scores, on the scale of the batch: at least 0.

        Omega(p) + Omega*(z) - <p, z>, where the conjugate Omega*(z) is the free energy over
        -2 sigma^2. The scale of the embedding cancels, up to a batch's share in it.
        """
        sigma, alpha = self.layer.sigma, self.layer.alpha
        spread = (embedded - self.mean).square().sum(-1).mean()
        distances = sq_distances(embedded, self.layer.centers.detach())
        distances = distances * (self.spread / spread.clamp_min(1e-12 * self.spread))
        energy, _ = row_free_energy(distances, sigma, alpha)
        excess = (targets * distances).sum(-1) - energy
        return (regulariser(targets, alpha, -1) + excess / (2.0 * sigma**2)).mean()
