"""Test the device dnnl with failing oneDNN calls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from failing_calls import check, sweep

NO_MEMORY, RUN_TIME = 1, 5
CALLS = [
    ("dnnl_engine_create", RUN_TIME, True, "oneDNN has no engine for this processor"),
    ("dnnl_stream_create", RUN_TIME, True, "oneDNN cannot create a stream"),
    ("dnnl_memory_create", NO_MEMORY, False, "out of memory"),
    ("dnnl_primitive_desc_create", NO_MEMORY, False, "out of memory"),
    ("dnnl_reorder_primitive_desc_create", NO_MEMORY, False, "out of memory"),
    ("dnnl_primitive_create", NO_MEMORY, False, "out of memory"),
    ("dnnl_primitive_attr_create", NO_MEMORY, False, "out of memory"),
    ("dnnl_primitive_attr_set_post_ops", NO_MEMORY, False, "out of memory"),
    ("dnnl_post_ops_create", NO_MEMORY, False, "out of memory"),
    ("dnnl_memory_set_data_handle", RUN_TIME, False, "a run-time error"),
    ("dnnl_primitive_execute", RUN_TIME, False, "a run-time error"),
    ("dnnl_stream_wait", RUN_TIME, False, "oneDNN"),
]


def test_failing_onednn_calls_are_reported_and_device_survives(tmp_path):
    rng = np.random.default_rng(6)
    weights = {
        "w": rng.standard_normal((16, 8, 3, 3)).astype(np.float32) / 8,
        "m": rng.standard_normal((6, 5)).astype(np.float32),
    }
    nodes = [
        ("Conv", ["x", "w"], "c", {}),
        ("Relu", ["c"], "d", {}),
        ("MatMul", ["d", "m"], "y", {}),
    ]
    errors = sweep(
        tmp_path,
        Path(__file__).with_name("failing_dnnl.c"),
        "dnnl",
        "libdnnl",
        nodes,
        weights,
        (1, 8, 8, 8),
        [call[:3] for call in CALLS],
        devices=["dnnl"],
    )
    check(CALLS, errors)
