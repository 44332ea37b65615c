"""Networks on boards for ``run``, ``verify`` and ``bench``, over a line or in QEMU."""

from __future__ import annotations

import contextlib
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmrt.cli.error_codes import EXPLANATIONS, PREFIX
from tvmrt.connection import RemoteMachine, RemoteNetwork
from tvmrt.error import TVMError
from tvmrt.file_suffix import suffix_of
from tvmrt.option_syntax import compile_call
from tvmrt.plugins.rpc.constants import IMAGE, QEMU
from tvmrt.tensor_info import TensorInfo

if TYPE_CHECKING:
    from tvmrt.compiler.sdk.export import CompiledLibrary
    from tvmrt.rpc.board import BoardSession

REPEATS = 64  # maximum number of times in one answer of a board, at any packet size
_CODE = re.compile(r"code 0x([0-9a-f]{8})$")


class RemoteBoard(RemoteMachine):
    """Executor of board images: QEMU, started for each image, or a board on a line.

    Parameters
    ----------
    name
        ``qemu``, or the name of a line.
    """

    suffix = IMAGE

    def __init__(self, name: str) -> None:
        self.name = name
        self._session: BoardSession | None = None

    def compile_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the options with the executor of board images."""
        return {**options, "executor": "aot"}

    def check(self, library: CompiledLibrary) -> None:
        """Raise ValueError for a network that was not compiled for a board."""
        if not library.options.firmware:
            raise ValueError(
                "--rpc names a board; give its processor with --target, for example cortex-m4"
            )

    def open(self, path: Path, threads: int | None) -> ImageNetwork:
        """Return the network of an image file, on a board that runs this image.

        Raises
        ------
        ValueError
            If the file is not an image, or the board runs another one.
        """
        from tvmrt.compiler.sdk.export import read_image_metadata

        if suffix_of(path) != IMAGE:
            raise ValueError(
                f"{path} is not an image for a board; "
                f"{compile_call(f'net{IMAGE}', target='cortex-m4')} writes one"
            )
        metadata = read_image_metadata(path)
        self.close()  # a board holds one network
        session = self._connect(path, metadata["target"])
        self._session = session
        try:
            there = str(session.get_function("tvmrt.image")())
        except AttributeError:
            raise ValueError(
                f"{self.name} does not run an image of tvmrt compile; flash {path} to it"
            ) from None
        if there != metadata["image"]:
            raise ValueError(
                f"the board at {self.name} has image {there}, {path} is {metadata['image']}: write "
                "that file to the board first"
            )
        return ImageNetwork(session, metadata)

    def _connect(self, path: Path, target: str) -> BoardSession:
        from tvmrt.compiler.sdk.export import board_of
        from tvmrt.rpc.board import connect_board
        from tvmrt.rpc.board_lines import start_emulator

        if self.name != QEMU:
            return connect_board(self.name)
        board = board_of(target)
        return connect_board(start_emulator(board.emulator, str(path), board.shift))

    def close(self) -> None:
        """End the session with the board, which resets it."""
        if self._session is not None:
            self._session.close()
        self._session = None


class ImageNetwork(RemoteNetwork):
    """Network of an image, on a board that runs the image.

    Parameters
    ----------
    session
        The session with the board.
    metadata
        Metadata of the image file: ``network``, ``inputs``, ``outputs``.
    """

    def __init__(self, session: BoardSession, metadata: Mapping[str, Any]) -> None:
        self.inputs = [
            TensorInfo(row["name"], row["dtype"], tuple(row["shape"])) for row in metadata["inputs"]
        ]
        self.output_names = [row["name"] for row in metadata["outputs"]]
        self._session = session
        with explain_board_errors():
            make = session.get_function("tvm.aot_executor.create")
            self._module = make(session.system_lib(), session.cpu(), metadata["network"])
            get_input = self._module["get_input"]
            self._inputs = {info.name: get_input(i) for i, info in enumerate(self.inputs)}

    def run(self, arrays: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        """Run the network once and return its outputs."""
        with explain_board_errors():
            for name, array in arrays.items():
                tensor = self._inputs[name]
                tensor.copyfrom(np.ascontiguousarray(array, tensor.dtype).reshape(tensor.shape))
            self._module["run"]()
            get_output = self._module["get_output"]
            return [get_output(i).numpy() for i in range(len(self.output_names))]

    def time(self, repeat: int) -> Sequence[float]:
        """Return the seconds of each run, by the board's clock."""
        make = self._session.get_function("runtime.RPCTimeEvaluator")
        seconds: list[float] = []
        with explain_board_errors():
            while len(seconds) < repeat:
                part = min(REPEATS, repeat - len(seconds))
                evaluate = make(self._module, "run", 1, 0, 1, part, 0, 0, 0, 1, 0, "")
                seconds += struct.unpack(f"<{part}d", bytes(evaluate()))
        return seconds


@contextlib.contextmanager
def explain_board_errors() -> Iterator[None]:
    """Translate the numeric error codes of a board into their explanations."""
    try:
        yield
    except TVMError as error:
        match = _CODE.search(str(error))
        for row in EXPLANATIONS if match else ():
            if match and row.code == int(match[1], 16):
                raise TVMError(
                    f"the board answers {PREFIX}{row.name} (0x{row.code:04x}): {row.cause} "
                    f"{row.remedy}"
                ) from error
        raise
