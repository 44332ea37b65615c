"""Export entries of the sweep to a cache folder, each in a process with a time limit.

An entry and an exporter have one folder, whose name contains a digest of the entry. It contains the
network, ``inputs.npz`` (arrays named SIZE:INPUT), ``sizes.json``, and ``skipped.txt`` with the
reason if torch cannot export it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import multiprocessing
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from entries import ENTRIES, EXPORTERS, Built, Entry, Input, code_of

KINDS = ("text", "decoders", "speech", "vision", "segmentation", "detection", "structured")
SECONDS = 240
SKIPPED = "skipped.txt"


def load_entries() -> dict[str, Entry]:
    """Import the modules of all kinds, which enter their networks. torch must be installed."""
    for kind in KINDS:
        importlib.import_module(kind)
    for entry in ENTRIES.values():
        _ = entry.digest  # before an edit of the files
    return ENTRIES


def folder_of(cache: Path, entry: Entry, exporter: str) -> Path:
    """Return the folder of an exported network."""
    digest = hashlib.sha256((entry.digest + code_of(_export)).encode()).hexdigest()[:12]
    return cache / f"{entry.name}-{exporter}-{digest}"


def exported(cache: Path, entry: Entry, exporter: str, again: bool = False) -> Path:
    """Export an entry unless it is in the cache; return its folder."""
    folder = folder_of(cache, entry, exporter)
    done = (folder / "sizes.json").exists() or ((folder / SKIPPED).exists() and not again)
    if done:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    process = multiprocessing.get_context("fork").Process(
        target=_export_in_child, args=(folder, entry, exporter)
    )
    process.start()
    process.join(SECONDS)
    if process.is_alive():
        process.kill()
        process.join()
        (folder / SKIPPED).write_text(f"torch: no end after {SECONDS} s")
    elif process.exitcode and not (folder / SKIPPED).exists():
        (folder / SKIPPED).write_text(f"torch: its process ends with {process.exitcode}")
    return folder


def _export_in_child(folder: Path, entry: Entry, exporter: str) -> None:
    (folder / SKIPPED).unlink(missing_ok=True)
    with open(folder / "export.log", "w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _export(folder, entry, exporter)
        except Exception as problem:
            while problem.__cause__ is not None:  # dynamo's errors begin with advice
                problem = problem.__cause__
            text = " ".join(str(problem).split())
            (folder / SKIPPED).write_text(f"torch: {type(problem).__name__}: {text[:2000]}")


def _export(folder: Path, entry: Entry, exporter: str) -> None:
    import torch

    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)  # its operators have no form in ONNX
    torch.manual_seed(0)
    built = entry.build()
    example = built.draw(0, entry.example)
    tensors = tuple(torch.from_numpy(each) for each in example.values())
    flat = _flat(built)
    if built.calibrated:
        _calibrate(flat, tensors)
    flat.eval()
    path = folder / f"{entry.name}_{exporter}.onnx"
    more: dict[str, Any] = {"dynamo": False, "dynamic_axes": _named_axes(built)}
    if exporter == "dynamo":
        shapes = tuple(_dynamic_shape(each) for each in built.inputs.values())
        more = {"dynamo": True, "dynamic_shapes": {"inputs": shapes}, "external_data": False}
    with torch.no_grad(), contextlib.redirect_stdout(None):
        torch.onnx.export(
            flat, tensors, str(path), input_names=list(built.inputs), opset_version=built.opset,
            **more,
        )  # fmt: skip
    arrays = {}
    for number, sizes in enumerate(entry.sizes):
        drawn = built.draw(number + 1, sizes)
        arrays.update({f"{number}:{name}": array for name, array in drawn.items()})
    np.savez(folder / "inputs.npz", **arrays)
    (folder / "sizes.json").write_text(json.dumps(entry.sizes))


def _named_axes(built: Built) -> dict[str, dict[int, str]]:
    return {name: each.axes() for name, each in built.inputs.items() if each.axes()}


def _dynamic_shape(each: Input) -> dict[int, Any]:
    """Return names of axes; the size of an axis with an expression is left to torch."""
    import torch

    auto = torch.export.Dim.AUTO
    return {axis: name if name.isidentifier() else auto for axis, name in each.axes().items()}


def _flat(built: Built) -> Any:
    """Return a module that takes the inputs in order."""
    import torch

    class Flat(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = built.module

        def forward(self, *inputs: Any) -> Any:
            return built.call(self.module, *inputs)

    return Flat()


def _calibrate(module: Any, inputs: tuple[Any, ...]) -> None:
    """Set the statistics of batch normalisations, without which values vanish or overflow."""
    import torch

    norms = [
        each for each in module.modules()
        if isinstance(each, torch.nn.modules.batchnorm._BatchNorm)
    ]  # fmt: skip
    module.eval()
    for norm in norms:
        norm.momentum = None
        norm.train()
    with torch.no_grad():
        module(*inputs)


__all__ = ["EXPORTERS", "SKIPPED", "exported", "folder_of", "load_entries"]
