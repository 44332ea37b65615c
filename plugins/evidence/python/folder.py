"""The folder of evidence: what it has, and the index of its files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from tvmrt import plugin
from tvmrt.compiler.sdk.export import filling, runtime_headers
from tvmrt.error import UnsupportedError
from tvmrt.option_syntax import option

from . import bounds, documents, loops, trace, vectors
from .evaluation import OnnxNetwork
from .reference import files as reference
from .signature import sign

INDEX, SIGNATURE = "index.json", "index.sig"
FORMAT = "tvmrt evidence 1"


def write_evidence(request: Any, model: Any, graph: Any, library: Any) -> None:
    """Write the folder of a compiled network; ``graph``: the network as imported.

    Raises ValueError or UnsupportedError for a network that the folder cannot describe, OSError if
    it cannot be written, and ImportError without the package that signs.
    """
    _check(library)
    sources = library.sources.files
    headers = runtime_headers(sources.values(), library.target)
    name, data = _network_bytes(model)
    network = None
    if name.endswith(".onnx"):
        with suppress(ValueError):  # verify says so
            network = OnnxNetwork(data)
    tensors = vectors.visible_tensors(library.program)
    given = _given(request, library.program)
    recorded = _vectors(given, library, tensors, graph, network)
    texts = {f"code/{each}": text for each, text in sources.items()}
    texts |= {f"code/include/{path}": text for path, text in headers.items()}
    hashes = digests({name: data, **{n: t.encode() for n, t in texts.items()}})
    texts["replay.c"] = Path(__file__).with_name("replay.c").read_text()
    texts["vectors/vectors.h"] = vectors.print_vectors(library, tensors, recorded)
    texts |= _further(given, library, graph, texts, tensors, recorded)
    texts |= documents.files(library.manifest, hashes, len(tensors), len(recorded))
    texts["vectors/tensors.json"] = documents.json_text(_described(library, tensors, recorded))
    files = {name: data, **{n: t.encode() for n, t in texts.items()}}
    for number, vector in enumerate(recorded):
        for kind, arrays in (("input", vector.inputs.values()), ("output", vector.outputs)):
            for key, array in enumerate(arrays):
                files[f"vectors/{number}.{kind}{key}.npy"] = _npy(array)
    _write(Path(request.evidence), files, request.evidence_key)


def _further(
    given: Any, library: Any, graph: Any, code: Mapping[str, str], tensors: Any, recorded: Any
) -> dict[str, str]:
    """Return the files that describe the code."""
    declared = vectors.ranges(library.program, given)
    computed = bounds.error_bounds(graph, declared)
    errors = {row["node"]: row["error"] for row in computed["nodes"]}
    steps = library.program.steps
    nodes = {step: [n.name for n in graph.nodes if {*n.sources} & {*step.sources}]
             for step in steps}  # fmt: skip
    compared = {}
    for tensor, digest in zip(tensors, recorded[0].digests):
        step, text = steps[tensor.step], _digest_text(digest)
        if tensor.kind == "f":
            text += f", error at most {max((errors[n] for n in nodes[step]), default=0.0):.3g}"
        compared[step] = text
    proofs = {
        f"code/{name}": text
        for make in library.options.folder_files.values()
        for name, text in make(library).items()
    }
    return {
        **proofs,
        **_reference(graph, library.module_name),
        "bounds.json": documents.json_text(_rounded({"ranges": declared, **computed})),
        **dict(loops.files(loops.find_loops(code))),
        **dict(trace.files(trace.trace_rows(library, nodes, bool(proofs), compared),
                           f"From nodes to lines: {library.module_name}")),
    }  # fmt: skip


def _reference(graph: Any, name: str) -> dict[str, str]:
    """Return the C of the independent generator, or a file that says why there is none."""
    lacking = "".join(f"{each}\n" for each in reference.missing(graph))
    files = {"missing.txt": lacking} if lacking else reference.texts(graph, name)
    return {f"reference/{file}": text for file, text in files.items()}


def _digest_text(digest: str) -> str:
    kinds = {"EXACT": "equal bits", "RANGE": "smallest and largest element", "NOTHING": "outputs"}
    return next(text for kind, text in kinds.items() if f"REPLAY_{kind}" in digest)


def _check(library: Any) -> None:
    if library.options.image is not None:
        raise ValueError(f"{option('evidence')} describes one network; compile each on its own")
    library.program.reject_varying_runs("evidence")
    sources, summary = library.sources, library.summary
    external = any(pool.is_external for pool in library.program.pools)
    for wrong, reason in (
        (external, "uses memory that the caller provides"),
        (sources.resident, "copies weights to RAM"),
        (sources.objects or sources.vendors, "needs objects or libraries"),
        (summary.narrowed or summary.reduced, "computes in less precision than its file says"),
    ):
        if wrong:
            raise UnsupportedError(f"the network {reason}, which evidence does not support")


def _network_bytes(model: Any) -> tuple[str, bytes]:
    """Return the network as one file, with its name."""
    import onnx

    path = Path(model) if isinstance(model, (str, Path)) else None
    if path is not None and path.suffix == ".onnx":
        model = onnx.load(path)  # with the weights of other files
    if isinstance(model, onnx.ModelProto):
        return "network.onnx", model.SerializeToString(deterministic=True)
    if path is not None:
        return f"network{path.suffix}", path.read_bytes()
    if isinstance(model, bytes):
        return "network.onnx" if plugin.importer_of(model) is None else "network.tflite", model
    raise UnsupportedError("evidence includes the network's file; compile a file")


def _given(request: Any, program: Any) -> Mapping[str, np.ndarray] | None:
    """Return the arrays of ``evidence_inputs``. Raises ValueError if one is missing."""
    given = request.evidence_inputs
    if given is not None and not isinstance(given, Mapping):
        with np.load(given) as archive:
            given = dict(archive)
    missing = [name for name in program.input_names if given is not None and name not in given]
    if missing:
        raise ValueError(f"{option('evidence_inputs')} lacks the input {missing[0]}")
    return given


def _vectors(given: Any, library: Any, tensors: Any, graph: Any, network: Any) -> list[Any]:
    program = library.program
    macs = sum(each.macs for each in library.summary.operators)
    drawn = vectors.draw_inputs(program, given, 8 if macs < vectors.FEW_MACS else 3)
    return [vectors.make_vector(each, program, tensors, graph, network) for each in drawn]


def _described(library: Any, tensors: Any, recorded: Any) -> dict[str, Any]:
    program = library.program
    rows = [
        {
            "operator": each.name, "nodes": each.nodes, "dtype": each.access.dtype.name,
            "shape": each.access.shape, "output": each.output, "readers": each.readers,
            "strides": each.access.at.strides, "offset": each.access.at.offset,
            "exact": "EXACT" in digest,
        }
        for each, digest in zip(tensors, recorded[0].digests)
    ]  # fmt: skip
    return {
        "name": library.module_name, "inputs": program.input_names, "outputs": program.output_names,
        "allowed": [vector.allowed for vector in recorded], "tensors": rows,
    }  # fmt: skip


def _npy(array: np.ndarray) -> bytes:
    file = BytesIO()
    np.save(file, np.ascontiguousarray(array), allow_pickle=False)
    return file.getvalue()


def _rounded(data: Any) -> Any:
    """Return data whose floats have the digits that all machines agree on."""

    def rounded(text: str) -> float:
        return float(f"{float(text):.6g}")

    return json.loads(json.dumps(data), parse_float=rounded, parse_constant=lambda t: f"{float(t)}")


def digests(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the SHA-256 of each file by path."""
    return {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}


def _write(folder: Path, files: dict[str, bytes], key: Any) -> None:
    files[INDEX] = documents.json_text({"format": FORMAT, "sha256": digests(files)}).encode()
    if key is not None:
        files[SIGNATURE] = sign(files[INDEX], Path(key))
    old = json.loads((folder / INDEX).read_text()) if (folder / INDEX).is_file() else {}
    if folder.exists() and any(folder.iterdir()) and old.get("format") != FORMAT:
        raise FileExistsError(f"{folder} has other files; name a new folder for the evidence")
    for name in (*old.get("sha256", ()), SIGNATURE):
        (folder / name).unlink(missing_ok=True)
    with filling(folder) as aside:
        for name, content in sorted(files.items()):
            (aside / name).parent.mkdir(parents=True, exist_ok=True)
            (aside / name).write_bytes(content)
