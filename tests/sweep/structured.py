"""Networks of the sweep for graphs, points, series, tables and experts."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from entries import Built, Input, network
from torch import nn

GRAPHS = ({"nodes": 7, "edges": 15}, {"nodes": 1, "edges": 1}, {"nodes": 20, "edges": 9},
          {"nodes": 15, "edges": 15}, {"nodes": 60, "edges": 120})  # fmt: skip
GRAPH = {"features": Input(("nodes", 8)), "edges": Input((2, "edges"), "ids", "nodes")}


class GraphConvolution(nn.Module):
    """Mean of the neighbours' features, by scatter over the edges."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def mean(self, x: Any, edges: Any) -> Any:
        ends = torch.cat([edges, torch.arange(x.shape[0]).expand(2, -1)], 1)
        sums = torch.zeros_like(x).index_add(0, ends[1], x[ends[0]])
        counts = torch.zeros(x.shape[0], dtype=x.dtype).index_add(
            0, ends[1], torch.ones_like(ends[1], dtype=x.dtype)
        )
        return sums / counts[:, None]

    def forward(self, x: Any, edges: Any) -> Any:
        return self.second(self.mean(self.first(self.mean(x, edges)).relu(), edges))


@network(*GRAPHS)
def gcn() -> Built:
    return Built(GraphConvolution(), GRAPH)


class GraphAttention(nn.Module):
    """Softmax over the edges of each node, with scatters of maxima and sums."""

    def __init__(self) -> None:
        super().__init__()
        self.values, self.source, self.target = nn.Linear(8, 16), nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, x: Any, edges: Any) -> Any:
        scores = (self.source(x)[edges[0]] + self.target(x)[edges[1]]).squeeze(-1)
        scores = nn.functional.leaky_relu(scores, 0.2)
        most = torch.full((x.shape[0],), -1e4).scatter_reduce(0, edges[1], scores, "amax")
        parts = (scores - most[edges[1]]).exp()
        sums = torch.zeros(x.shape[0]).scatter_add(0, edges[1], parts)
        parts = parts / sums[edges[1]]
        rows = self.values(x)
        return torch.zeros_like(rows).index_add(0, edges[1], rows[edges[0]] * parts[:, None])


@network(*GRAPHS)
def gat() -> Built:
    return Built(GraphAttention(), GRAPH)


CLOUDS = ({"batch": 2, "points": 24}, {"batch": 1, "points": 8}, {"points": 33},
          {"batch": 3, "points": 16}, {"batch": 1, "points": 192})  # fmt: skip


class PointNetwork(nn.Module):
    """Nearest points by TopK of distances, edge convolutions, maximum: DGCNN."""

    def __init__(self) -> None:
        super().__init__()
        self.edge, self.labels = nn.Linear(6, 16), nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        squares = (x**2).sum(-1)
        distances = squares[:, :, None] + squares[:, None] - 2 * x @ x.transpose(1, 2)
        places = distances.topk(4, largest=False)[1]
        rows = x[torch.arange(x.shape[0])[:, None, None], places]
        pairs = torch.cat([x[:, :, None].expand_as(rows), rows - x[:, :, None]], -1)
        return self.labels(self.edge(pairs).relu().amax(2).amax(1))


@network(*CLOUDS)
def dgcnn() -> Built:
    return Built(PointNetwork(), {"points": Input(("batch", "points", 3))})


class Experts(nn.Module):
    """Mixture of experts: each takes its tokens by NonZero and adds them by index_add."""

    def __init__(self) -> None:
        super().__init__()
        self.route = nn.Linear(16, 4)
        self.experts = nn.ModuleList([nn.Linear(16, 16) for _ in range(4)])

    def forward(self, x: Any) -> Any:
        rows = x.flatten(0, 1)
        weights, chosen = self.route(rows).softmax(-1).topk(2)
        found = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            places, ranks = torch.where(chosen == number)
            part = expert(rows[places]).relu() * weights[places, ranks][:, None]
            found = found.index_add(0, places, part)
        return found.view_as(x)


LENGTHS = ({"batch": 2, "length": 7}, {"batch": 1, "length": 1}, {"batch": 3, "length": 12},
           {"length": 9}, {"batch": 5, "length": 60})  # fmt: skip


@network(*LENGTHS)
def moe_sparse() -> Built:
    return Built(Experts(), {"states": Input(("batch", "length", 16))})


@network(*LENGTHS)
def nbeats_like() -> Built:
    """Series normalised by its own mean, a causal dilated network, quantiles."""
    return Built(CausalNetwork(), {"series": Input(("batch", "length", 3))})


class CausalNetwork(nn.Module):
    """Temporal convolutions with padding on the left."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv1d(16, 16, 3, dilation=d) for d in (1, 2, 4)])
        self.into, self.out = nn.Linear(3, 16), nn.Linear(16, 9)

    def forward(self, x: Any) -> Any:
        mean = x.mean(1, keepdim=True)
        scale = x.std(1, keepdim=True, correction=0) + 1e-2
        y = self.into((x - mean) / scale).transpose(1, 2)
        for layer in self.layers:
            y = y + layer(nn.functional.pad(y, (2 * layer.dilation[0], 0))).relu()
        y = self.out(y.transpose(1, 2)).unflatten(-1, (3, 3))
        return y * scale[..., None] + mean[..., None]


@network({"batch": 2}, {"batch": 1}, {"batch": 3}, {"batch": 7}, {"batch": 32})
def patch_series() -> Built:
    config = transformers.PatchTSTConfig(
        num_input_channels=2, context_length=32, patch_length=8, patch_stride=8, d_model=16,
        num_hidden_layers=2, num_attention_heads=2, ffn_dim=32, prediction_length=8,
    )  # fmt: skip
    model = transformers.PatchTSTForPrediction(config)
    inputs = {"past_values": Input(("batch", 32, 2))}
    return Built(model, inputs, lambda m, x: m(past_values=x).prediction_outputs)


class Recommender(nn.Module):
    """Click prediction: sums of embeddings of a list per row, products of pairs of features."""

    def __init__(self) -> None:
        super().__init__()
        self.items, self.user, self.dense = (
            nn.Embedding(50, 8),
            nn.Embedding(50, 8),
            nn.Linear(4, 8),
        )
        self.out = nn.Linear(3, 1)

    def forward(self, user: Any, items: Any, mask: Any, dense: Any) -> Any:
        listed = (self.items(items) * mask.unsqueeze(-1)).sum(1)
        rows = torch.stack([self.user(user), listed, self.dense(dense)], 1)
        products = rows @ rows.transpose(1, 2)
        first, second = torch.triu_indices(3, 3, 1)
        return self.out(products[:, first, second]).sigmoid().squeeze(1)


@network(*LENGTHS)
def recommender() -> Built:
    inputs = {"user": Input(("batch",), "ids"), "items": Input(("batch", "length"), "ids"),
              "mask": Input(("batch", "length"), "mask"),
              "dense": Input(("batch", 4))}  # fmt: skip
    return Built(Recommender(), inputs)


class Joint(nn.Module):
    """Joint network of a transducer: every frame with every label."""

    def __init__(self) -> None:
        super().__init__()
        self.frames, self.labels, self.out = nn.Linear(16, 24), nn.Linear(12, 24), nn.Linear(24, 30)

    def forward(self, frames: Any, labels: Any) -> Any:
        both = self.frames(frames)[:, :, None] + self.labels(labels)[:, None]
        return self.out(both.tanh()).log_softmax(-1)


@network(
    {"batch": 2, "frames": 9, "labels": 4}, {"batch": 1, "frames": 1, "labels": 1},
    {"frames": 12, "labels": 7}, {"batch": 3, "frames": 5, "labels": 5},
    {"batch": 1, "frames": 72, "labels": 32},
)  # fmt: skip
def transducer_joint() -> Built:
    inputs = {"frames": Input(("batch", "frames", 16)), "labels": Input(("batch", "labels", 12))}
    return Built(Joint(), inputs)
