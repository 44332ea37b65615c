"""The ONNX operator ``Double`` of the domain ``example.toys``."""

from typing import Any

from tvmrt.compiler.sdk.frontend import onnx_op


@onnx_op("Double", domain="example.toys")
def double(ctx: Any) -> Any:
    x = ctx.required(0)
    return ctx.emit("add", [x, x])
