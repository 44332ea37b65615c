"""The record of a kernel of microcontrollers, which stands beside its header."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Generic, Protocol, TypeVar

import numpy as np

from tvmrt.compiler.ir.rounding import round_up

from ...c.text import call
from .shape import MicroShape, Ring, Windows


class Shaped(Protocol):
    """A layer, of which its kernels ask more."""

    @property
    def shape(self) -> MicroShape: ...


Layer = TypeVar("Layer", bound=Shaped)


@dataclass(frozen=True)
class MicroWeights:
    """What a layer computes with.

    ``weights``: packed; ``bias``: for all channels and those that fill them up, of integers with
    what the inputs' zero point gives, or None where it is among the weights; ``shift``: what the
    weights lack, or None.
    """

    weights: np.ndarray
    bias: np.ndarray | None
    shift: np.ndarray | None = None


@dataclass(frozen=True)
class MicroKernel(Generic[Layer]):
    """A kernel for layers of integers (``layer_i8.py``) or of floats (``layer_f32.py``).

    Parameters
    ----------
    header
        Of ``include/tvm/runtime/kernels``.
    name
        Of the C functions: ``NAME_run`` takes the layer's struct and its data; of depthwise kernels
        ``NAME_rows`` makes some rows of a layer (``board/rows.h``).
    more
        What else it is told of a layer, as C.
    cost
        Instructions for a multiply-add in long loops, on the processor that it is for; 0 where the
        least code counts. Of kernels that support a layer, the cheapest is taken, of those that
        need a board's instructions where there are some.
    supports
        Whether it can compute a layer, weights included.
    pack
        A layer's weights in the order in which it reads them.
    scratch
        What it keeps in scratch for a layer.
    needs
        What processors must have, of the names in ``codegen/target.py``.
    unit
        Of a depthwise kernel: how many input rows a slot of its ring has.
    panel
        Where weights are packed as [so many channels][element][channel] and nothing else: how many.
    """

    header: str
    name: str
    cost: float
    supports: Callable[[Layer], bool]
    pack: Callable[[Layer], MicroWeights]
    scratch: Callable[[Layer], Windows | Ring]
    needs: frozenset[str] = frozenset()
    unit: int = 1
    panel: int = 0
    more: Callable[[Layer], tuple[str, ...]] = lambda layer: ()

    def call(self, layer: Layer, address: str) -> str:
        """The C expression that computes a layer at an address, whose tensors are ``data``."""
        return call(f"{self.name}_run", address, "&data", *self.more(layer))


class Kernels(dict[str, MicroKernel[Layer]]):
    """The ``KERNEL`` of each module of a package, by the module's name."""

    def __init__(self, package: str, path: Iterable[str]) -> None:
        names = [each.name for each in pkgutil.iter_modules(path)]
        super().__init__({name: import_module(f"{package}.{name}").KERNEL for name in names})

    def choose(
        self, layer: Layer, board: frozenset[str], by_rows: bool = False
    ) -> MicroKernel[Layer]:
        """The cheapest kernel that supports the layer on a board with these instructions.

        ``by_rows``: for some rows of the layer, of which the least code has one.
        """
        fit = (each for each in self.values() if each.needs <= board and (each.cost or not by_rows))
        ordered = sorted(fit, key=lambda kernel: (not kernel.needs, kernel.cost))
        return next(each for each in ordered if each.supports(layer))


def padded(values: np.ndarray, unit: int) -> np.ndarray:
    """Values per channel with zeros to a whole unit."""
    out = np.zeros((round_up(len(values), unit), *values.shape[1:]), values.dtype)
    out[: len(values)] = values
    return out
