"""Seed inputs for fuzzing regions of the device dnnl."""

from __future__ import annotations

from collections.abc import Callable

BORDERS = '{"borders": "dense"}'
CONV = (
    '{"borders": "dense", "dilations": [1, 1], "groups": 1, "pads_after": [0, 0], '
    '"pads_before": [0, 0], "strides": [1, 1]}'
)


def seeds(regions: Callable[..., bytes]) -> list[bytes]:
    """Return seed regions; ``regions`` writes the text of one node."""
    return [
        regions(
            "conv",
            [[1, 2, 3, 3], [2, 2, 1, 1], [2], [1, 2, 3, 3]],
            [1, 2],
            CONV,
            device="dnnl",
        ),
        regions("matmul", [[2, 3], [3, 2], [2, 2]], [1], BORDERS, device="dnnl"),
        regions("add", [[2, 3], [3], [2, 3]], [1], BORDERS, device="dnnl"),
        regions("relu", [[2, 3], [2, 3]], [], BORDERS, device="dnnl"),
    ]
