"""Default bounds, by role, for symbolic dimensions of inputs that are not declared."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Union

import onnx

from tvmrt.compiler.frontend.dimension_roles import DefaultBounds, DimUses, Role, bounds_by_role
from tvmrt.compiler.frontend.dims import Declaration, Dims, unused_name
from tvmrt.compiler.ir import TensorType
from tvmrt.compiler.ir.extent import lower_bound, upper_bound
from tvmrt.compiler.ir.extent_forms import linear_form

from . import axis_matmul_rules, axis_rules, axis_window_rules  # noqa: F401  (register rules)
from .axis_uses import AxisUses
from .flatten_io import sequences_to_tensors, shapes_by_tensor
from .inline_functions import inline_functions
from .inputs import make_given_inputs
from .model_file import load_lazily
from .sanitize_model import sanitize_model
from .version_converter import upgrade_opset

Bounds = Union[str, "tuple[int, int]"]
_IMAGE_SIZE_KEYS = ("imgsz", "image_size")  # metadata: "[640, 640]"
MAX_METADATA_SIZE = 4096
Sizes = Mapping[str, DefaultBounds]


def name_symbolic_axes(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int | str]]
) -> onnx.ModelProto:
    """Return a model in which each symbolic axis of an input has a name: ``x_2`` is axis 2 of
    ``x``.

    Inputs with a shape in ``shapes`` are left unchanged, and so is a model that needs no name.
    """
    if not any(_unnamed_axes(info, shapes) for info in model.graph.input):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    taken = {dim.dim_param for info in copy.graph.input for dim in info.type.tensor_type.shape.dim}
    for info in copy.graph.input:
        dims = info.type.tensor_type.shape.dim
        for axis in _unnamed_axes(info, shapes):
            name = re.sub(r"\W", "_", f"{info.name}_{axis}", flags=re.ASCII)
            dims[axis].dim_param = unused_name(name, taken.__contains__)
            taken.add(dims[axis].dim_param)
    return copy


def _unnamed_axes(info: onnx.ValueInfoProto, shapes: Mapping[str, object]) -> list[int]:
    if info.name in shapes:
        return []
    dims = info.type.tensor_type.shape.dim
    return [i for i, d in enumerate(dims) if not d.HasField("dim_value") and not d.dim_param]


@dataclass(frozen=True)
class UndeclaredDims:
    """Undeclared symbolic dimensions, their uses and their default bounds."""

    uses: Mapping[str, DimUses]
    sizes: Mapping[str, DefaultBounds]
    forms: Mapping[str, tuple[str, int, int]]
    inputs: Mapping[str, Sequence[int | str]]

    def declare(self, sizes: Sizes, same: Mapping[str, str]) -> dict[str, Bounds]:
        """Return declarations with these bounds; ``same``: dimensions that equal others."""
        result: dict[str, Bounds] = {}
        for name, size in sizes.items():
            if name in same:
                result[name] = same[name]
                continue
            inner, factor, offset = self.forms.get(name, (name, 1, 0))
            if size.in_steps and name not in self.forms:
                inner, factor = re.sub(r"\W", "_", f"{name}_by_{size.step}"), size.step
                result[name] = f"{factor}*{inner}"
            low, high = -(-(size.low - offset) // factor), (size.high - offset) // factor
            result[inner] = max(low, 0), max(high, low, 1)
        return result

    def declare_valid(self, types: Mapping[str, TensorType]) -> dict[str, Bounds]:
        """Return declarations of the sizes at which a network with inputs of these types is
        valid."""
        result: dict[str, Bounds] = {}
        for name, shape in self.inputs.items():
            for label, extent in zip(shape, types[name].shape if name in types else ()):
                if not isinstance(label, str) or label not in self.sizes:
                    continue
                form = linear_form(extent)
                if form is None or not form[0].name.isidentifier():
                    result[label] = lower_bound(extent), upper_bound(extent)
                    continue
                symbol, factor, offset = form
                if symbol.name != label and label not in self.forms:
                    more = f" + {offset}" if offset else ""
                    result[label] = (f"{factor}*" if factor > 1 else "") + symbol.name + more
                result[symbol.name] = symbol.low, symbol.high
        return result

    def limit_batch(self, sizes: Sizes, batch: int) -> dict[str, DefaultBounds]:
        """Return the bounds with at most ``batch`` batch elements."""

        def limit_bounds(size: DefaultBounds) -> DefaultBounds:
            return replace(size, high=max(min(size.high, batch), size.low))

        return {n: limit_bounds(s) if s.role is Role.BATCH else s for n, s in sizes.items()}

    def fallback_bounds(self) -> Iterator[tuple[dict[str, DefaultBounds], dict[str, str]]]:
        """Yield bounds to try in turn if the default ones are invalid, and the dimensions that have
        to equal others."""
        sizes, same = dict(self.sizes), self._equal_dims()
        if same:
            yield sizes, same
        stepped = {n: replace(s, in_steps=s.step > 1) for n, s in sizes.items()}
        if stepped != sizes:
            yield stepped, same
        from_two = {
            n: replace(s, low=2) if s.low < 2 <= s.high and not _is_batch(s) else s
            for n, s in stepped.items()
        }
        yield from_two, same
        yield {n: replace(s, low=max(s.low, min(2, s.high))) for n, s in from_two.items()}, same
        for high in (256, 128, 64, 32, 16):
            yield (
                {
                    n: replace(s, high=max(min(s.high, high), s.low)) if _is_length(s) else s
                    for n, s in from_two.items()
                },
                same,
            )
        pictures = [n for n, size in sizes.items() if size.role is Role.PICTURE]
        if len(pictures) > 1:
            yield stepped, {**same, **dict.fromkeys(pictures[1:], pictures[0])}

    def _equal_dims(self) -> dict[str, str]:
        """Map dimensions that are combined elementwise with an earlier one to that dimension."""
        first: dict[str, str] = {}
        for name in self.sizes:
            if name in first or name in self.forms:
                continue
            group, pending = {name}, [name]
            while pending:
                for other in sorted(self.uses[pending.pop()].combined_with):
                    if other in self.sizes and other not in group | self.forms.keys():
                        group.add(other)
                        pending.append(other)
            first.update(dict.fromkeys(group - {name}, name))
        return first

    def typical_sizes(
        self, keep_batch: bool, picture: int | None = None
    ) -> dict[str, DefaultBounds]:
        """Return one size per dimension, ``picture`` for axes of a picture. With ``keep_batch``, a
        batch keeps its range."""
        return {
            name: size if keep_batch and _is_batch(size)
            else replace(size, low=size.default_size(picture), high=size.default_size(picture))
            for name, size in self.sizes.items()
        }  # fmt: skip

    def halve_largest(self, sizes: Sizes) -> dict[str, DefaultBounds] | None:
        """Halve the largest of the bounds; None if none can be halved."""
        half = {n: s.high // 2 // s.step * s.step for n, s in sizes.items()}
        able = [n for n, s in sizes.items() if half[n] >= max(s.low, 1)]
        if not able:
            return None
        upper_bound = max(sizes[n].high for n in able)
        return {
            n: replace(s, high=half[n]) if n in able and s.high == upper_bound else s
            for n, s in sizes.items()
        }


def _is_batch(size: DefaultBounds) -> bool:
    return size.role is Role.BATCH


def _is_length(size: DefaultBounds) -> bool:
    return size.role in (Role.LENGTH, Role.COUNT)


def find_undeclared_dims(
    source: str | os.PathLike | onnx.ModelProto,
    shapes: Mapping[str, Sequence[int | str]] | None,
    dims: Mapping[str, Declaration] | None,
    sequences: Mapping[str, int | None] | None,
    names: Sequence[str],
) -> UndeclaredDims:
    """Track the dimensions of a model's inputs and choose bounds for those in ``names``.

    ``shapes``, ``dims`` and ``sequences`` are the caller's. Raises the same errors as
    ``import_model`` for a file that cannot be read.
    """
    model, _ = load_lazily(source)
    model = make_given_inputs(sanitize_model(model), shapes or ())
    model, bundles = sequences_to_tensors(model, dict(sequences or {}), Dims(dims))
    given = shapes_by_tensor(shapes or {}, bundles)
    model = upgrade_opset(name_symbolic_axes(model, given))
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = {
        info.name: list(given.get(info.name, ())) or [
            d.dim_value if d.HasField("dim_value") else d.dim_param
            for d in info.type.tensor_type.shape.dim
        ]
        for info in model.graph.input if info.name not in weights
    }  # fmt: skip
    model = inline_functions(model)
    state = AxisUses(model, inputs)
    state.propagate(model.graph.node)
    forms = {name: form for name in names if (form := _parse_linear_dim(name, dims)) is not None}
    sizes = bounds_by_role(
        state.uses, _metadata_image_size(model), [n for n in names if n in state.uses]
    )
    return UndeclaredDims(state.uses, sizes, forms, inputs)


def _parse_linear_dim(
    name: str, dims: Mapping[str, Declaration] | None
) -> tuple[str, int, int] | None:
    """Parse a dimension that is an expression of one undeclared dimension."""
    if name.isidentifier():
        return None
    names = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", name))
    if sum(other not in (dims or {}) for other in names) > 1:
        return None
    for inner in names:
        trial = Dims({**(dims or {}), inner: (1, 1 << 20)})
        try:
            form = linear_form(trial.extent(name)) if name in trial else None
        except ValueError:
            form = None
        if form is not None and form[0].name == inner:
            return inner, form[1], form[2]
    return None


def _metadata_image_size(model: onnx.ModelProto) -> int | None:
    """Return the picture size that the file's metadata states."""
    for entry in model.metadata_props:
        if entry.key in _IMAGE_SIZE_KEYS:
            found = [int(text) for text in re.findall(r"\d{1,6}", entry.value)]
            return min(max(found), MAX_METADATA_SIZE) if found else None
    return None
