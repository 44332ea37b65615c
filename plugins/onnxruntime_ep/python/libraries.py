"""What the execution provider asks of the compiler, from the cache of ``tvmrt.load`` if possible.

A model that is in the cache is found without an import of the compiler.
"""

from __future__ import annotations

import _thread
import os
import shutil
import tempfile
from pathlib import Path

from tvmrt.network import cache_key
from tvmrt.network.cache import Cache

RESULT = "network.so", "parts.txt"  # name in an entry of the cache: of a library, of parts


def write_libraries(
    model: Path, output: Path, parts: bool, dims: str, min_nodes: int, target: str | None
) -> None:
    """Write the library of a model; with ``parts`` a text with the node indices of each part that
    compiles, and the library of each as INDEX.so next to it.

    Raises the errors of ``tvmrt.compile``, and those of ``compiling`` for wrong options.
    """

    name = RESULT[parts]

    def compile_to(folder: Path) -> None:
        from tvmrt.plugins.onnxruntime_ep import compiling

        compiling.write_libraries(model, folder / name, parts, dims, min_nodes, target)

    asked = repr((parts, dims, min_nodes, target))
    content = cache_key.digest("onnxruntime_ep", cache_key.digest_of_file(model), asked)
    try:
        cache, key = Cache(), cache_key.key_here(content)
        _copy(cache.find(key) or cache.add(key, compile_to), name, output)
    except OSError:  # no cache on this machine, or it cannot be written
        with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
            compile_to(Path(folder))
            _copy(Path(folder), name, output)


def _copy(folder: Path, name: str, output: Path) -> None:
    """Copy the libraries of parts, and last the file ``name``, which says that they are there."""
    for each in folder.glob("*.so"):
        if each.name != name:
            shutil.copyfile(each, output.with_name(each.name))
    shutil.copyfile(folder / name, output)


def compile_for_provider(
    model: bytes, result: bytes, output: bytes, parts: int,
    dims: bytes | None, min_nodes: bytes | None, target: bytes | None,
) -> int:  # fmt: skip
    """Compile in this process: ``tvmrt_onnxruntime_ep_compiler`` of ``src/provider.h``."""
    try:
        write_libraries(
            Path(os.fsdecode(model)), Path(os.fsdecode(result)), bool(parts),
            (dims or b"").decode(), int(min_nodes or 3), target.decode() if target else None,
        )  # fmt: skip
        return 0
    except KeyboardInterrupt:
        _thread.interrupt_main()  # raised again when onnxruntime has returned
        text = "it was interrupted"
    except BaseException as error:  # none may pass through onnxruntime
        from tvmrt.cli.app import one_line

        text = f"tvmrt: error: {one_line(error)}"
    Path(os.fsdecode(output)).write_text(text, encoding="utf-8")
    return 1
