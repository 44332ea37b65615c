"""Test devices: plain C for elementwise operators, with refusals and failures on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import tvmrt
from tvmrt.compiler.ir import Node
from tvmrt.devices import Context, CSource, Device, Region

C_OPERATORS = {"add": "+", "sub": "-", "mul": "*"}


class SampleDevice(Device):
    """Device for float32 Add, Sub and Mul of equal shapes that ``takes`` allows."""

    def __init__(
        self,
        name: str = "sample",
        takes: Callable[[Node], bool] = lambda node: True,
        wants: Callable[[Region], bool] = lambda region: True,
        fails: str = "",
    ) -> None:
        self.name = name
        self.takes = takes
        self.wants = wants
        self.fails = fails  # "codegen", or "run": the generated code fails

    def supports(self, node: Node) -> str | None:
        if node.op not in C_OPERATORS:
            return f"{self.name} takes no {node.op}"
        if any(v.type != node.output.type for v in node.inputs):
            return f"{self.name} takes operands of equal shapes alone"
        if node.output.dtype.name != "float32":
            return f"{self.name} takes float32 alone"
        return None if self.takes(node) else f"{self.name} was configured not to take it"

    def evaluate(self, region: Region) -> str | None:
        return None if self.wants(region) else "the region is not wanted"

    def codegen(self, regions: Sequence[Region], context: Context) -> CSource:
        if self.fails == "codegen":
            raise ValueError("no code today")
        return CSource("\n".join([HEAD, *(self._function(region) for region in regions)]))

    def _function(self, region: Region) -> str:
        names = {v: f"x{i}[i]" for i, v in enumerate(region.inputs)}
        parameters = [f"const float *x{i}" for i in range(len(region.inputs))]
        parameters += [f"float *y{i}" for i in range(len(region.outputs))]
        body = []
        for k, node in enumerate(region.nodes):
            # a constant of the same shape, without broadcasting
            for j, value in enumerate(node.inputs):
                if value.is_constant and value not in names:
                    items = ", ".join(f"{float(v)!r}f" for v in value.data.reshape(-1))
                    body.append(f"    static const float c{k}_{j}[] = {{{items}}};")
                    names[value] = f"c{k}_{j}[i]"
            a, b = (names[v] for v in node.inputs)
            body.append(f"    const float t{k} = {a} {C_OPERATORS[node.op]} {b};")
            names[node.output] = f"t{k}"
        body += [f"    y{i}[i] = {names[v]};" for i, v in enumerate(region.outputs)]
        failure = f'  TVMAPISetLastError("{self.name} is lost");\n  return -1;\n'
        return (
            f"int32_t {region.symbol}({', '.join(parameters)}) {{\n"
            f"  for (int i = 0; i < {region.outputs[0].type.size}; ++i) {{\n"
            + "\n".join(body)
            + "\n  }\n"
            + (failure if self.fails == "run" else "  return 0;\n")
            + "}\n"
        )


HEAD = "#include <stdint.h>\n#include <tvm/runtime/c_backend_api.h>\n"


def run_library(path, executor: str, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return the outputs of an exported library."""
    from tvmrt.runtime import executor as executors

    module = tvmrt.runtime.load_module(str(path))["default"](tvmrt.cpu(0))
    kind = executors.AotModule if executor == "aot" else tvmrt.contrib.graph_executor.GraphModule
    instance = kind(module)
    for name, array in feeds.items():
        instance.set_input(name, array)
    instance.run()
    return [instance.get_output(i).numpy() for i in range(instance.get_num_outputs())]
