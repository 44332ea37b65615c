"""Judge of mutants: exact arithmetic on large random inputs. It shares no code with the kit.

Results are computed by numpy in integers and float64. A quantised result may differ by one where
the exact number is halfway between two integers within the errors of float32.
"""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import json
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import tvmrt

THREADS, SETS = 4, 3  # threads; and sets of inputs
INT8, UINT8 = np.int8, np.uint8
# Of convolutions: type, input, weights, groups, strides, dilations, pads.
CONVOLUTIONS = [
    (INT8, (2, 35, 11, 9), (37, 35, 3, 2), 1, (1, 2), (2, 1), (1, 0, 2, 1)),
    (UINT8, (1, 24, 12, 13), (24, 1, 5, 3), 24, (2, 1), (1, 1), (2, 1, 2, 1)),
    (UINT8, (1, 6, 8, 8), (140, 3, 1, 1), 2, (1, 1), (1, 1), (0, 0, 0, 0)),
    (INT8, (1, 300, 3, 4), (18, 300, 2, 2), 1, (1, 1), (1, 2), (0, 1, 1, 1)),
    (None, (2, 19, 10, 9), (33, 19, 3, 2), 1, (2, 1), (1, 2), (1, 2, 0, 1)),
    (None, (1, 20, 9, 9), (40, 1, 3, 3), 20, (1, 1), (2, 2), (2, 2, 2, 2)),
]
# Of matrix products: type, input, columns.
PRODUCTS = [(INT8, (33, 700), 150), (UINT8, (2, 5, 90), 21), (UINT8, (3, 1200), 19),
            (None, (40, 300), 131), (None, (2, 3, 70), 17)]  # fmt: skip


class Layers:
    """One network with many layers, and its exact results."""

    def __init__(self, seed: int, is_open: bool = False) -> None:
        self.rng = np.random.default_rng(seed)  # of weights
        self.fixed = np.random.default_rng(4)  # of the structure
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}
        self.feeds: dict[str, tuple[tuple[int, ...], Any]] = {}
        self.exact: dict[str, Any] = {}  # of each output: function from inputs to (values, doubt)
        self.is_open = is_open
        for i, row in enumerate(CONVOLUTIONS):
            self.convolution(f"c{i}", *row)
        for i, row in enumerate(PRODUCTS):
            self.product(f"m{i}", *row)
        for i, kind in enumerate((INT8, UINT8)):
            self.sum(f"s{i}", kind)
        self.pool("p0")
        self.floats()

    def quantity(self, kind: Any) -> tuple[np.float32, int]:
        limits = np.iinfo(kind)
        scale = np.float32(self.fixed.uniform(0.004, 0.03))
        return scale, int(self.fixed.integers(limits.min, limits.max + 1))

    def node(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], f"n_{output}", **attributes))
        return output

    def read(self, name: str, scale: Any, zero: Any, axis: int = 0) -> str:
        self.constants[f"{name}_s"] = np.asarray(scale, np.float32)
        self.constants[f"{name}_z"] = zero = np.asarray(zero)
        axes = {"axis": axis} if zero.ndim else {}
        inputs = [name, f"{name}_s", f"{name}_z"]
        return self.node("DequantizeLinear", inputs, f"{name}_f", **axes)

    def written(self, name: str, value: str, scale: np.float32, zero: int, kind: Any) -> None:
        self.constants |= {f"{name}_s": scale, f"{name}_z": np.asarray(zero, kind)}
        self.node("QuantizeLinear", [value, f"{name}_s", f"{name}_z"], name)

    def weighted(self, name, kind, shape, w_shape, axis, op, linear, **attributes) -> None:
        """Add a layer with weights: ``linear`` computes its exact sums from two arrays."""
        self.feeds[f"{name}_x"] = shape, kind or np.float32
        count = w_shape[axis]
        if kind is None:
            w = self.rng.normal(size=w_shape).astype(np.float32)
            b = self.rng.normal(size=count).astype(np.float32)
            self.constants |= {f"{name}_w": w, f"{name}_b": b}
            if op == "Conv":
                self.node(op, [f"{name}_x", f"{name}_w", f"{name}_b"], name, **attributes)
                by_axis = b.reshape(1, -1, 1, 1).astype(np.float64)
            else:
                self.node(op, [f"{name}_x", f"{name}_w"], f"{name}_t")
                self.node("Add", [f"{name}_t", f"{name}_b"], name)
                by_axis = b.astype(np.float64)
            self.exact[name] = lambda x: (linear(x.astype(float), w.astype(float)) + by_axis, None)
            return
        x_scale, x_zero = self.quantity(kind)
        w = self.rng.integers(-128, 128, w_shape).astype(INT8)
        w_scale = self.fixed.uniform(0.004, 0.03, count).astype(np.float32)
        inner = int(np.prod(w_shape)) // count
        y_scale = np.float32(x_scale * w_scale.mean() * 128 * inner**0.5 * 1.5)
        limits = np.iinfo(kind)
        y_zero = int(self.fixed.integers(limits.min + 60, limits.max - 60))
        operands = [self.read(f"{name}_x", x_scale, kind(x_zero))]
        self.constants[f"{name}_w"] = w
        operands.append(self.read(f"{name}_w", w_scale, np.zeros(count, INT8), axis))
        b = np.zeros(count, np.int32)
        if op == "Conv":
            b = self.rng.integers(-99_999, 99_999, count).astype(np.int32)
            self.constants[f"{name}_b"] = b
            operands.append(self.read(f"{name}_b", x_scale * w_scale, np.zeros(count, np.int32)))
        self.written(
            name, self.node(op, operands, f"{name}_t", **attributes), y_scale, y_zero, kind
        )
        channels = (1, -1, 1, 1) if op == "Conv" else (-1,)
        scale = (x_scale.astype(float) * w_scale / y_scale).reshape(channels)

        def exact(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            sums = linear(x.astype(float) - x_zero, w.astype(float)) + b.reshape(channels)
            return rounded(sums * scale, y_zero, kind)

        self.exact[name] = exact

    def convolution(self, name, kind, shape, w_shape, groups, strides, dilations, pads) -> None:
        def linear(x: np.ndarray, w: np.ndarray) -> np.ndarray:
            return convolved(x, w, groups, strides, dilations, pads)

        attributes = {"group": groups, "strides": strides, "dilations": dilations, "pads": pads}
        self.weighted(name, kind, shape, w_shape, 0, "Conv", linear, **attributes)

    def product(self, name, kind, shape, columns) -> None:
        self.weighted(name, kind, shape, (shape[-1], columns), 1, "MatMul", np.matmul)

    def sum(self, name, kind) -> None:
        shape = (3, 41, 7, 5)
        quantities = [self.quantity(kind) for _ in range(2)]
        names = [f"{name}_x", f"{name}_v"]
        self.feeds |= {n: (shape, kind) for n in names}
        operands = [self.read(n, s, kind(z)) for n, (s, z) in zip(names, quantities)]
        y_scale, y_zero = np.float32(0.037), int(self.fixed.integers(0, 90))
        self.written(name, self.node("Add", operands, f"{name}_t"), y_scale, y_zero, kind)

        def exact(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            parts = [(x.astype(float) - z) * float(s) for x, (s, z) in zip((a, b), quantities)]
            return rounded((parts[0] + parts[1]) / float(y_scale), y_zero, kind)

        self.exact[name] = exact

    def pool(self, name) -> None:
        self.feeds[f"{name}_x"] = (2, 5, 9, 11), np.float32
        window = {
            "kernel_shape": [3, 2],
            "strides": [2, 1],
            "dilations": [1, 2],
            "pads": [1, 1, 0, 1],
        }
        self.node("MaxPool", [f"{name}_x"], name, **window)

        def exact(x: np.ndarray) -> tuple[np.ndarray, None]:
            padded = np.pad(x, ((0, 0), (0, 0), (1, 0), (1, 1)), constant_values=-np.inf)
            rows, columns = (padded.shape[2] - 3) // 2 + 1, padded.shape[3] - 2
            parts = [
                padded[:, :, i : i + 2 * rows - 1 : 2, 2 * j : 2 * j + columns]
                for i in range(3)
                for j in range(2)
            ]
            return np.max(parts, axis=0), None

        self.exact[name] = exact

    def floats(self) -> None:
        shape = (3, 1025, 3)
        self.feeds |= {"f_x": (shape, np.float32), "f_v": (shape, np.float32)}
        self.node("Relu", ["f_x"], "f_relu")
        for op in ("Add", "Mul", "Max"):
            self.node(op, ["f_x", "f_v"], f"f_{op.lower()}")
        self.exact["f_relu"] = lambda x: (np.maximum(x, 0), None)
        self.exact["f_add"] = lambda a, b: (a.astype(float) + b, None)
        self.exact["f_mul"] = lambda a, b: (a.astype(float) * b, None)
        self.exact["f_max"] = lambda a, b: (np.maximum(a, b), None)
        self.node("Add", ["f_relu", "f_max"], "f_twice")  # its operands are results, too
        self.exact["f_twice"] = lambda a, b: (
            np.maximum(a, 0).astype(float) + np.maximum(a, b),
            None,
        )

    def inputs(self, seed: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        found = {}
        for name, (shape, kind) in self.feeds.items():
            if kind == np.float32:
                found[name] = rng.normal(size=shape).astype(kind)
                if name[0] == "f":
                    found[name][rng.random(shape) < 0.1] = rng.choice([np.nan, np.inf, -np.inf])
            else:
                limits = np.iinfo(kind)
                found[name] = rng.integers(limits.min, limits.max + 1, shape).astype(kind)
        return found

    def model(self) -> onnx.ModelProto:
        def info(name: str, shape: tuple[int, ...], kind: Any) -> onnx.ValueInfoProto:
            size = ["n", *shape[1:]] if self.is_open else shape
            return helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), size
            )

        graph = helper.make_graph(
            self.nodes, "judge", [info(name, *row) for name, row in self.feeds.items()],
            [helper.make_empty_tensor_value_info(name) for name in self.exact],
            [numpy_helper.from_array(np.asarray(a), n) for n, a in self.constants.items()],
        )  # fmt: skip
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    @cache  # noqa: B019
    def right(self, seed: int, size: int = 0) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return inputs, with ``size`` as the first extent if given, and the exact results."""
        feeds = self.inputs(seed)
        if size:
            feeds = {name: np.resize(a, (size, *a.shape[1:])) for name, a in feeds.items()}
        wanted = {}
        for name, exact in self.exact.items():
            prefix = name[0] if name[0] == "f" else f"{name}_"
            own = [array for feed, array in feeds.items() if feed.startswith(prefix)]
            with np.errstate(all="ignore"):
                wanted[name] = exact(*(own[:1] if name == "f_relu" else own))
        return feeds, wanted

    def wrong(self, net: Any, seed: int, size: int = 0) -> str:
        """Run on inputs and return which result is wrong, or nothing."""
        feeds, right = self.right(seed, size)
        for (name, (wanted, doubt)), array in zip(right.items(), results(net, feeds)):
            if array.shape != wanted.shape:
                return f"{name} has another shape"
            if array.dtype == np.float32:
                right = np.allclose(array, wanted, 1e-4, 1e-3, equal_nan=True)
            else:
                distance = np.abs(array.astype(int) - wanted.astype(int))
                right = bool((distance <= (0 if doubt is None else doubt)).all())
            if not right:
                return f"{name} is wrong"
        return ""


def rounded(steps: np.ndarray, zero: int, kind: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the quantised result, and where it may be one less or more."""
    limits = np.iinfo(kind)
    value = np.clip(np.rint(steps) + zero, limits.min, limits.max)
    doubt = np.abs(steps - np.floor(steps) - 0.5) < 1e-5 * (10 + np.abs(steps))
    return value.astype(kind), doubt


def convolved(x, w, groups, strides, dilations, pads) -> np.ndarray:
    """Return the sums of a convolution; padding is 0."""
    top, left, bottom, right = pads
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    rows = (x.shape[2] - dilations[0] * (w.shape[2] - 1) - 1) // strides[0] + 1
    columns = (x.shape[3] - dilations[1] * (w.shape[3] - 1) - 1) // strides[1] + 1
    total = np.zeros((len(x), w.shape[0], rows, columns))
    for g, (own, part) in enumerate(zip(np.split(w, groups), np.split(x, groups, 1))):
        first = g * len(own)
        for i in range(w.shape[2]):
            for j in range(w.shape[3]):
                y, z = i * dilations[0], j * dilations[1]
                seen = part[:, :, y : y + strides[0] * (rows - 1) + 1 : strides[0],
                            z : z + strides[1] * (columns - 1) + 1 : strides[1]]  # fmt: skip
                total[:, first : first + len(own)] += np.einsum(
                    "ncyx,oc->noyx", seen, own[:, :, i, j]
                )
    return total


# ---- libraries, which the correct device compiles once for all mutants


WAYS: dict[str, dict[str, Any]] = {
    "first": {}, "second": {}, "scheduled": {"schedule": "async"}, "open": {"dims": {"n": (1, 3)}},
    "started": {"device_options": {"reference": {"timeout_ms": 600_000}}},
}  # fmt: skip


def compile_libraries(folder: Path) -> None:
    """Compile all networks for the registered device, and variants with an unknown operator."""
    for name, network in networks().items():
        library = tvmrt.compile(
            network.model(), devices=["reference"], target="native", **WAYS[name]
        )
        library.export(folder / f"{name}.so")
        (blob, *_) = library.sources.modules
        payload = blob.payload
        size = int.from_bytes(payload[:8], "little")
        head = json.loads(payload[8 : 8 + size])
        head["regions"][-1]["nodes"][-1]["op"] = "unheard_of"
        text = json.dumps(head).encode()
        changed = len(text).to_bytes(8, "little") + text + payload[8 + size :]
        library.sources.modules[0] = dataclasses.replace(blob, payload=changed)
        library.export(folder / f"{name}_unknown.so")


@cache
def networks() -> dict[str, Layers]:
    """Return the network of each library."""
    seeds = {"second": 2}
    return {name: Layers(seeds.get(name, 1), name == "open") for name in WAYS}


def prepare() -> None:
    """Compute the exact results, which the processes of all mutants share."""
    for name, network in networks().items():
        for seed in range(THREADS + SETS):
            network.right(seed, (1, 3, 2, 3)[seed % 4] if name == "open" else 0)


def executor(path: Path) -> Any:
    """Return an executor of a library."""
    from tvmrt.contrib.graph_executor import GraphModule

    return GraphModule(tvmrt.runtime.load_module(str(path))["default"](tvmrt.cpu(0)))


def results(net: Any, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Run a network."""
    net.run(**feeds)
    return [net.get_output(i).numpy() for i in range(net.get_num_outputs())]


def judge(plugin: Path, folder: Path) -> str:
    """Return why the device of this plug-in is wrong, or nothing. Crashes and hangs are wrong, too:
    run it in a process of its own."""
    tvmrt.load_device_plugin(plugin)
    count = ctypes.CDLL(str(plugin)).allocated_blocks
    layers = networks()
    try:
        text = _memory() or _fails(folder) or _orders(folder, layers) or _sizes(folder, layers)
        text = text or _threads(folder, layers)
    except Exception as problem:
        return f"it fails: {problem}"
    gc.collect()
    left = count()
    return text or (f"{left} blocks are not freed" if left != 0 else "")


def _orders(folder: Path, layers: dict[str, Layers]) -> str:
    nets: dict[str, Any] = {}
    for turn, name in enumerate(("first", "second", "first", "started", "second", "started")):
        net = nets.setdefault(name, None) or executor(folder / f"{name}.so")
        nets[name] = net
        if text := layers[name].wrong(net, turn % SETS):
            return f"{name}, run {turn}: {text}"
    nets.clear()
    gc.collect()
    for turn, name in enumerate(("second", "first")):
        if text := layers[name].wrong(executor(folder / f"{name}.so"), turn):
            return f"{name}, loaded again: {text}"
    return ""


def _sizes(folder: Path, layers: dict[str, Layers]) -> str:
    net = executor(folder / "open.so")
    for turn, size in enumerate((1, 3, 2, 3)):
        if text := layers["open"].wrong(net, turn, size):
            return f"size {size}: {text}"
    return ""


def _threads(folder: Path, layers: dict[str, Layers]) -> str:
    module = tvmrt.runtime.load_module(str(folder / "scheduled.so"))

    def work(number: int) -> str:
        from tvmrt.contrib.graph_executor import GraphModule

        net = GraphModule(module["default"](tvmrt.cpu(0)))
        for turn in range(3):
            if text := layers["scheduled"].wrong(net, number + turn):
                return f"thread {number}: {text}"
        return ""

    with ThreadPoolExecutor(THREADS) as pool:
        return next(filter(None, pool.map(work, range(THREADS))), "")


def _fails(folder: Path) -> str:
    """Return nothing if each library with an unknown operator fails to load or to run."""
    layers = networks()
    for name in ("first", "started", "scheduled", "started"):
        try:
            results(executor(folder / f"{name}_unknown.so"), layers[name].inputs(0))
        except Exception as problem:
            if "unknown operator" not in str(problem):
                return f"an unknown operator: {problem}"
            continue
        return f"{name}: an unknown operator does not fail"
    return ""


def _memory() -> str:
    """Return nothing if tensors in the device's memory keep their elements, and are aligned."""
    tensors = []
    for size in (1, 63, 100_000, 7):
        array = np.random.default_rng(size).integers(0, 256, size).astype(np.uint8)
        tensors.append((array, tvmrt.nd.array(array, tvmrt.ext_dev(0))))
    for array, tensor in tensors:
        copy = tvmrt.nd.empty(array.shape, "uint8", tvmrt.ext_dev(0))
        tensor.copyto(copy)
        if not np.array_equal(tensor.numpy(), array) or not np.array_equal(copy.numpy(), array):
            return "a tensor in its memory has other elements"
        if ctypes.c_uint64.from_address(tensor.handle).value % 64:
            return "a tensor in its memory is not aligned"
    return ""
