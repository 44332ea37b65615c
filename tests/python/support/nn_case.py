"""Single-node ONNX networks, many in one model: compiled once, each compared with a reference."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from differences import Judge, differences_of
from onnx import helper, numpy_helper

IR_VERSION = 10


@dataclass
class Case:
    """One node: its operator, inputs (None: left out), which of them are constants, attributes.

    ``outputs``: number of compared outputs; ``wanted``: expected arrays if no reference runs the
    operator.
    """

    id: str
    op: str
    inputs: list[np.ndarray | None]
    constants: tuple[int, ...] = ()
    outputs: int = 1
    domain: str = ""
    wanted: list[np.ndarray] | None = None
    rtol: float = 1e-4
    atol: float = 1e-5
    attrs: dict[str, Any] = field(default_factory=dict)


def case(id: str, op: str, inputs, constants=(), **attrs: Any) -> Case:
    """Return a case; keywords that are not fields of Case become attributes of the node."""
    own = {k: attrs.pop(k) for k in ("outputs", "domain", "wanted", "rtol", "atol") if k in attrs}
    return Case(id, op, list(inputs), tuple(constants), attrs=attrs, **own)


def build_model(cases: list[Case], opset: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return one graph with all cases, and the feeds of its inputs."""
    nodes, inputs, weights, outputs, feeds = [], [], [], [], {}
    for number, each in enumerate(cases):
        names = []
        for i, array in enumerate(each.inputs):
            name = "" if array is None else f"c{number}_i{i}"
            names.append(name)
            if array is None:
                continue
            if i in each.constants:
                weights.append(numpy_helper.from_array(array, name))
            else:
                kind = helper.np_dtype_to_tensor_dtype(array.dtype)
                inputs.append(helper.make_tensor_value_info(name, kind, array.shape))
                feeds[name] = array
        results = [f"c{number}_o{i}" for i in range(each.outputs)]
        nodes.append(
            helper.make_node(
                each.op, names, results, f"case{number}", domain=each.domain, **each.attrs
            )
        )
        outputs += [helper.make_empty_tensor_value_info(r) for r in results]
    graph = helper.make_graph(nodes, "cases", inputs, outputs, weights)
    domains = [("", opset), *((d, 1) for d in {c.domain for c in cases} if d)]
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*d) for d in domains])
    model.ir_version = IR_VERSION
    return model, feeds


def reference(each: Case, opset: int, evaluator: str) -> list[np.ndarray]:
    """Return the case's outputs by ``onnxruntime`` or by the ONNX ``reference`` evaluator."""
    if each.wanted is not None:
        return each.wanted
    model, feeds = build_model([each], opset)
    if evaluator == "onnxruntime":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        return session.run(None, feeds)
    from differences.exact_reference import evaluators
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(model, new_ops=evaluators()).run(None, feeds)


def reference_outputs(each: Case, opset: int, evaluator: str) -> list[np.ndarray]:
    """Return the outputs by ``evaluator``, or else by the ONNX reference evaluator.

    onnxruntime and the reference evaluator must agree, if the latter supports the operator, unless
    the operator is in the table of intentional differences, which names the reference to use.
    """
    if each.wanted is not None or evaluator != "onnxruntime":
        return reference(each, opset, "reference")
    try:
        found = reference(each, opset, "onnxruntime")
    except Exception:  # onnxruntime raises various errors for unimplemented cases
        return reference(each, opset, "reference")
    try:
        standard = reference(each, opset, "reference")
    except Exception:  # the evaluator raises various errors for unknown cases
        return found
    return (
        found if _agree(each, found, standard) else _correct_reference(each, opset, found, standard)
    )


def _agree(each: Case, found: list, standard: list) -> bool:
    pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(found, standard)]
    return all(
        (a.dtype, a.shape) == (b.dtype, b.shape)
        and (a.dtype.kind not in "biufc" or np.allclose(a, b, each.rtol, each.atol, True))
        for a, b in pairs[: each.outputs]
    )


def _correct_reference(each: Case, opset: int, found: list, standard: list) -> list[np.ndarray]:
    """Return the outputs of the correct reference, as the table of differences says."""
    (rows,) = differences_of(build_model([each], opset)[0]).values() or ([],)
    if any(row.judge is Judge.EXACT and not row.data for row in rows):
        return standard
    assert rows, (
        f"onnxruntime and the reference evaluator of onnx disagree about {each.op} {each.id}: the "
        "table tests/python/support/differences says who is right"
    )
    return found


def check(cases: list[Case], opset: int, folder: Path, evaluator: str = "onnxruntime") -> None:
    """Compile all cases as one network, run it, compare every output."""
    wanted = [reference_outputs(each, opset, evaluator) for each in cases]
    model, feeds = build_model(cases, opset)
    found = run_compiled(model, feeds, folder)
    problems = []
    for number, (each, arrays) in enumerate(zip(cases, wanted)):
        for i, array in enumerate(arrays[: each.outputs]):
            got = found[f"c{number}_o{i}"]
            try:
                assert got.dtype == array.dtype, f"{got.dtype} instead of {array.dtype}"
                np.testing.assert_allclose(got, array, each.rtol, each.atol, equal_nan=True)
            except AssertionError as problem:
                problems.append(f"{each.id} output {i}: {problem}")
    assert not problems, "\n".join(problems)


def run_compiled(
    model: onnx.ModelProto, feeds: dict[str, np.ndarray], folder: Path
) -> dict[str, np.ndarray]:
    """Return the network's outputs by name, from the library that tvmrt compiles."""
    from tvmrt import runtime
    from tvmrt.compiler import pipeline

    library = pipeline.compile(model, executor="aot")
    path = Path(folder) / "cases.so"
    library.export_library(str(path))
    executor = runtime.executor.AotModule(runtime.load_module(str(path))["default"](runtime.cpu(0)))
    for name, array in feeds.items():
        executor.set_input(name, array)
    executor.run()
    return {
        output.name: executor.get_output(i).numpy()
        for i, output in enumerate(library.summary.outputs)
    }
