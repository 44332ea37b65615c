"""Descriptors of the kernels of microcontrollers; each belongs to a kernel header."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Generic, Protocol, TypeVar

import numpy as np

from tvmrt import plugin
from tvmrt.compiler.ir.rounding import round_up

from ...c.formatting import call
from .shape import Im2colBuffer, LineBuffer, MicroShape


class BoardLayer(Protocol):
    """Minimum interface of a layer; kernels use more of it."""

    @property
    def shape(self) -> MicroShape: ...

    @property
    def parts(self) -> Sequence[BoardLayer]:
        """The layer itself, or layers of the same shape: a kernel computes one per call."""
        ...


KINDS = ("int8", "float32")  # of layers, and the packages with their kernels
Layer = TypeVar("Layer", bound=BoardLayer)


@dataclass(frozen=True)
class MicroWeights:
    """Packed constants of a layer.

    ``weights``: packed; ``bias``: padded to all channels, for integers with the folded input zero
    point, or None if it is part of the weights; ``shift``: the per-channel weight shift, or None.
    """

    weights: np.ndarray
    bias: np.ndarray | None
    shift: np.ndarray | None = None


@dataclass(frozen=True)
class MicroKernel(Generic[Layer]):
    """A kernel for integer layers (``layer_i8.py``) or float layers (``layer_f32.py``).

    Parameters
    ----------
    header
        File in ``include/tvm/runtime/kernels``, or in that folder of a plug-in's ``headers``; of
        integer kernels with ``_i8`` or ``_i16`` in its name.
    name
        Prefix of the C functions: ``NAME_run`` takes the layer's struct and its data; ``NAME_rows``
        of a depthwise kernel computes some rows of a layer (``board/partial_rows.h``).
    extra_arguments
        Further arguments for a layer, as C.
    cost
        Instructions per multiply-add in long loops, on the processor that it is for; 0 if minimum
        code size counts. The cheapest kernel that supports a layer is chosen; kernels that need a
        board's instructions come first.
    supports
        Whether it can compute a layer, weights included.
    pack
        Packs a layer's weights in the order that the kernel reads.
    scratch
        The kernel's scratch for a layer.
    required_features
        Required processor features, named as in ``codegen/target.py``.
    unit
        Input rows per slot of a depthwise kernel's line buffer.
    reads_weights_per_pixel
        Whether a depthwise kernel reads all weights for each output pixel, not for each slot.
    may_overwrite_input
        Whether the output may have the memory of the input: a pointwise kernel then reads a whole
        pixel, and a depthwise kernel its line buffer, before it writes there.
    packs_in_run
        Whether a run can pack any weights for it (``board/matmul_i8.h``).
    x_bytes
        Sizes of the elements of the input that an integer kernel reads: 1, or 2 for int16.
    panel
        Channels per block if weights are packed as plain [block][element][channel]; else 0.
    """

    header: str
    name: str
    cost: float
    supports: Callable[[Layer], bool]
    pack: Callable[[Layer], MicroWeights]
    scratch: Callable[[Layer], Im2colBuffer | LineBuffer]
    required_features: frozenset[str] = frozenset()
    unit: int = 1
    reads_weights_per_pixel: bool = False
    may_overwrite_input: bool = True
    panel: int = 0
    packs_in_run: bool = False
    x_bytes: tuple[int, ...] = (1,)
    extra_arguments: Callable[[Layer], tuple[str, ...]] = lambda layer: ()

    def call(self, layer: Layer, address: str, data: str = "&data") -> str:
        """Return the C expression that computes a layer; ``address``, ``data``: those of the layer
        and its tensors."""
        return call(f"{self.name}_run", address, data, *self.extra_arguments(layer))


class KernelRegistry(Mapping[str, MicroKernel[Layer]]):
    """``KERNEL`` of each module of a package, by the module's name. The modules are imported at the
    first access: networks for hosts need none."""

    def __init__(self, package: str, path: Iterable[str]) -> None:
        self.kind = package.rpartition(".")[2]
        self._package, self._path = package, path

    @cached_property
    def _kernels(self) -> dict[str, MicroKernel[Layer]]:
        names = [each.name for each in pkgutil.iter_modules(self._path)]
        return {name: import_module(f"{self._package}.{name}").KERNEL for name in names}

    def __getitem__(self, name: str) -> MicroKernel[Layer]:
        return self._kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def of_plugins(self) -> list[MicroKernel[Layer]]:
        """Return the kernels that plug-ins add. ValueError if one is not of a known kind."""
        added = []
        for key in plugin.keys("board_kernels"):
            kind, _, name = key.partition("/")
            kernel = plugin.find("board_kernels", key, MicroKernel)
            if kind not in KINDS or not name:
                raise ValueError(
                    f"the plug-in {plugin.owner_of('board_kernels', key)} adds the board kernel "
                    f"{key!r}; its name must be {' or '.join(f'{each}/NAME' for each in KINDS)}"
                )
            if kind == self.kind:
                added.append(kernel)
        return added

    def choose(
        self, layer: Layer, board: frozenset[str], by_rows: bool = False, packs_in_run: bool = False
    ) -> MicroKernel[Layer]:
        """Return the cheapest kernel that supports the layer on a board with these instructions.

        ``by_rows``: for some rows of the layer; excludes kernels for minimum code size.
        ``packs_in_run``: the run packs the weights.
        """
        fit = (
            each
            for each in (*self.values(), *self.of_plugins())
            if each.required_features <= board and (each.cost or not by_rows)
            if layer.shape.x_bytes in each.x_bytes and (each.packs_in_run or not packs_in_run)
        )
        ordered = sorted(fit, key=lambda kernel: (not kernel.required_features, kernel.cost))
        return next(each for each in ordered if all(map(each.supports, layer.parts)))


def pad_to_multiple(values: np.ndarray, unit: int) -> np.ndarray:
    """Zero-pad values per channel to a whole unit."""
    out = np.zeros((round_up(len(values), unit), *values.shape[1:]), values.dtype)
    out[: len(values)] = values
    return out
