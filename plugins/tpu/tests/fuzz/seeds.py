"""Seed inputs for fuzzing regions of the simulated accelerator."""

from __future__ import annotations

from collections.abc import Callable

CONV = '{"strides": [1, 1], "dilations": [1, 1], "pads_before": [1, 1], "groups": 2}'
POOL = '{"kernel": [2, 2], "strides": [2, 2], "count_pads": 1, "precision": "float16"}'


def seeds(regions: Callable[..., bytes]) -> list[bytes]:
    """Return seed regions; ``regions`` writes the text of one node."""
    return [
        regions(
            "conv", [[1, 4, 3, 3], [2, 2, 2, 2], [2], [1, 2, 4, 4]], [1, 2], CONV, device="tpu"
        ),
        regions("matmul", [[2, 3], [3, 2], [2, 2]], [1], '{"precision": "int8"}', device="tpu"),
        regions("avg_pool", [[1, 2, 4, 4], [1, 2, 2, 2]], [], POOL, device="tpu"),
        regions(
            "max", [[3, 1], [2], [3, 2]], [1], '{"a": 1.5, "b": [1, 2.5], "c": []}', device="tpu"
        ),
        regions("tanh", [[2], [2]], [], head='"options": {"precision": "float16"}, ', device="tpu"),
        regions(
            "add", [[], [2], [2]], [0], head='"fallback": 1, "device_version": 9, ', device="tpu"
        ),
    ]
