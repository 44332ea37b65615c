"""Seed inputs for fuzzing regions of the device opencl."""

from __future__ import annotations

from collections.abc import Callable


def kernel(scalars: int, local: str = "[64]") -> str:
    """Return an OpenCL node: a kernel with three buffers and some integers."""
    names = ", ".join(f"const int a{i}" for i in range(scalars))
    types = " ".join(["int", "float", "half", "uint"][:scalars])
    source = (
        "__kernel void f(__global const float *x, __global const float *y, __global float *z, "
        f"{names}) {{ z[0] = x[0]; }}"
    )
    return (
        f'{{"build_options": "-DA=1", "function": "f", "global_size": [64], "local_size": {local}, '
        f'"operator": "f", "scalar_types": "{types}", '
        f'"scalars": {[1.0] * scalars}, "source": "{source}", "types": "float32:2x2"}}'
    )


def seeds(regions: Callable[..., bytes]) -> list[bytes]:
    """Return seed regions; ``regions`` writes the text of one node."""
    return [
        regions("custom_opencl", [[2, 2], [2, 2], [2, 2]], [1], kernel(4), device="opencl"),
        regions("custom_opencl", [[2, 2], [2, 2], [2, 2]], [], kernel(2, "[]"), device="opencl"),
        regions("reshape", [[2, 3], [3, 2]], [], device="opencl"),
        regions("reshape", [[3], [3, 2]], [], device="opencl"),  # of another size: refused
        regions("identity", [[2, 3], [2, 3]], [], device="opencl"),
    ]
