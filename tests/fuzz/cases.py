"""Make random networks from seeds: all operators, quantised, with dynamic sizes, ``.tflite``."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

import dynamic_generator
import families
import families_moves
import families_nn
import generator
import tflite_generator
from batch import Run
from references import Model

FAMILIES = (families, families_moves, families_nn)  # importing them registers their families
SHARES = {"onnx": 30, "picture": 14, "quantised": 12, "open": 15, "tflite": 29}


@dataclass
class Case:
    """A network with its inputs. ``dims``: the bounds of dynamic dimensions."""

    name: str
    kind: str
    model: Model
    runs: list[Run]
    dims: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    operators: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()  # by our compiler, with the reason


def case_of(seed: int, kinds: Mapping[str, int] = SHARES) -> Case:
    """Return the network of a seed."""
    (kind,) = random.Random(f"kind {seed}").choices(list(kinds), list(kinds.values()))
    name = f"graph-{seed}"
    if kind == "tflite":
        return _tflite(name, seed)
    if kind == "open":
        model, runs, dims, g = dynamic_generator.grown(seed)
        runs = [Run(feeds, sizes) for sizes, feeds in runs]
    elif kind == "picture":
        model, feeds, g = generator.picture(seed)
        runs, dims = [Run(feeds)], {}
    else:
        model, feeds, g = generator.grown(seed, quantised=kind == "quantised")
        runs, dims = [Run(feeds)], {}
    operators = tuple(dict.fromkeys(node.op_type for node in model.graph.node))
    return Case(name, kind, model, runs, dims, operators, tuple(g.refused))


def _tflite(name: str, seed: int) -> Case:
    data, runs, g = tflite_generator.grown(seed)
    kind = f"tflite {g.dtype}"
    return Case(name, kind, data, [Run(feeds) for feeds in runs], {}, g.operators, tuple(g.refused))
