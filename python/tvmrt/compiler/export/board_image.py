"""Complete image for a board: a network, the server of remote calls, and start-up code.

The boards are those emulated by QEMU. A folder of the package has build options (``.mk``), memory
map (``.ld``) and start-up code of each. The example of firmware uses the same folder.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmrt.compiler.codegen.target import get_target
from tvmrt.error import CompileError
from tvmrt.libinfo import find_boards_path, find_include_path
from tvmrt.option_syntax import compile_call, option

from .atomic import replacing, scratch_folder
from .firmware_build import SERVER, runtime_sources
from .model_library_format import has_foreign_code
from .vendors import vendor_code, vendor_includes

MARK = b"tvmrt-image:"  # before the metadata, in a section that the board does not load
_LINE = re.compile(r"^(\w+) := (.*)$", re.MULTILINE)
_NOTES = ("serve.c", "reset.c", "cycles.c")


@dataclass(frozen=True)
class Board:
    """Row of the folder. ``emulator``: QEMU's command; its clock advances 2 ** ``shift``
    nanoseconds per instruction. ``network``: options for the network's code; libraries of the
    toolchain may be for a processor with fewer features."""

    target: str
    tool: str
    flags: tuple[str, ...]
    network: tuple[str, ...]
    start: str
    uart: str
    emulator: tuple[str, ...]
    shift: int


def boards() -> dict[str, Board]:
    """Return the boards by the targets whose images they run."""
    all_boards = {}
    for path in sorted(Path(find_boards_path()).glob("*.mk")):
        variables = dict(_LINE.findall(path.read_text(encoding="utf-8")))
        flags = shlex.split(f"{variables['CPU']} {variables['UART_FLAGS']}")
        network = shlex.split(variables.get("NETWORK_CPU", variables["CPU"]))
        all_boards[path.stem] = Board(
            variables["TARGET"], variables["TOOL"], tuple(flags), tuple(network),
            variables["START"], variables["UART"],
            tuple(shlex.split(variables["EMULATOR"])), int(variables["SHIFT"]),
        )  # fmt: skip
    return all_boards


def board_of(target: str) -> Board:
    """Return the board of a target, or of the target that it is like; raise ValueError if there is
    none."""
    all_boards = boards()
    target = target if target in all_boards else get_target(target).base
    if target not in all_boards:
        raise ValueError(
            f"target {target} has no board support for images; the targets are "
            f"{', '.join(all_boards)}; for others export to a folder or .tar and link it to a "
            "program with tvm/runtime/crt/microtvm_rpc_server.h"
        )
    return all_boards[target]


def read_image_metadata(path: Path) -> dict[str, Any]:
    """Read the metadata of an image; raise ValueError for other files."""
    data = path.read_bytes()
    begin = data.find(MARK)
    end = data.find(b"\0", begin)
    if begin < 0 or end < 0:
        raise ValueError(
            f"{path} is not a board image with an RPC server; "
            f"{compile_call('net.elf', target='cortex-m4')} writes one"
        )
    return json.loads(data[begin + len(MARK) : end])


def object_commands(
    compiler: Sequence[str], sources: Sequence[Path], folder: Path
) -> dict[Path, list[str]]:
    """Return the commands that compile C files, by the objects' paths in ``folder``."""
    objects = {folder / f"{i}-{source.stem}.o": source for i, source in enumerate(sources)}
    return {
        object: [*compiler, "-c", str(source), "-o", str(object)]
        for object, source in objects.items()
    }


def write_image(library: Any, path: Path) -> None:
    """Compile, link and write the image of a network, a ``CompiledLibrary``.

    Raises
    ------
    ValueError
        If the network is not for a board, or cannot be called with tensors.
    CompileError
        If the board's compiler is missing or fails, for example because the network is too large
        for the board's memories.
    """
    options = library.options
    if not options.firmware or options.executor != "aot" or options.interface_api != "packed":
        raise ValueError(
            f"{path}: a board image needs a network for a firmware target, with "
            f"{option('executor', 'aot')} and {option('interface_api', 'packed')}"
        )
    summary = library.summary
    for tensor in (*summary.inputs, *summary.outputs):
        if not all(isinstance(extent, int) for extent in tensor.shape):
            raise ValueError(
                f"{path}: {tensor.name} has a dynamic shape; board images need fixed shapes, "
                f"set with {option('shapes')}"
            )
    board = board_of(library.target.name)
    compiler = f"{board.tool}-gcc"
    if shutil.which(compiler) is None:
        raise CompileError(f"{compiler} is not installed; images for {board.target} need it")
    metadata = _image_metadata(library, board)
    with replacing(path) as temporary, scratch_folder() as folder:
        _build(library, board, metadata, folder, Path(temporary))


def _image_metadata(library: Any, board: Board) -> dict[str, Any]:
    summary = library.summary

    def tensors(rows: Any) -> list[dict[str, Any]]:
        return [
            {"name": row.name, "dtype": str(row.dtype), "shape": list(row.shape)} for row in rows
        ]

    content = hashlib.sha256()
    for name, text in sorted(library.sources.files.items()):
        content.update(f"{name}\n{text}\n".encode())
    return {
        "network": library.module_name,
        "target": board.target,
        "image": content.hexdigest()[:16],
        "inputs": tensors(summary.inputs),
        "outputs": tensors(summary.outputs),
    }


def _build(library: Any, board: Board, metadata: dict[str, Any], folder: Path, image: Path) -> None:
    """Call the compiler directly, so that make is not needed."""
    board_folder = Path(find_boards_path())
    vendors = list(dict.fromkeys(library.sources.vendors.values()))
    code = [*library.write_sources(folder), *vendor_code(vendors)]
    sources = []
    for name, text in runtime_sources(["aot", SERVER], has_foreign_code(library)).items():
        file = folder / "runtime" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        if file.suffix == ".c":
            sources.append(file)
    sources += [board_folder / name for name in (board.start, board.uart, *_NOTES)]
    compiler = f"{board.tool}-gcc"
    specs_file = _output(compiler, "-print-file-name=picolibc.specs")
    specs = ["--specs=picolibc.specs"] if "/" in specs_file else []
    includes = [folder, *find_include_path(), board_folder.parent, *vendor_includes(vendors)]
    usual = [
        compiler, *specs, "-std=gnu11", "-Os", "-ffunction-sections", "-fdata-sections",
        *(f"-I{path}" for path in includes),
    ]  # fmt: skip
    base = get_target(library.target.base).flags
    own = [flag for flag in library.target.flags if flag not in base]  # of a plug-in's processor
    objects = object_commands([*usual, *board.network, *own], code, folder)
    for command in objects.values():
        _run(command, board)
    command = [
        *usual, *board.flags, f'-DIMAGE="{metadata["image"]}"',
        "-nostartfiles", f"-L{board_folder}", "-T", f"{board.target}.ld", "-Wl,--gc-sections",
        *map(str, [*objects, *sources]), "-lm", "-o", str(folder / "image.elf"),
    ]  # fmt: skip
    _run(command, board)
    (folder / "metadata").write_bytes(MARK + json.dumps(metadata).encode() + b"\0")
    _run(
        [f"{board.tool}-objcopy", "--add-section", f".tvmrt={folder / 'metadata'}",
         str(folder / "image.elf"), str(image)],
        board,
    )  # fmt: skip


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _run(command: list[str], board: Board) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.splitlines()
        messages = [line for line in lines if "overflowed" in line or "RAM:" in line]
        text = "; ".join(messages) or done.stderr.strip()[-2000:]
        raise CompileError(f"the image for {board.target} could not be built: {text}")
