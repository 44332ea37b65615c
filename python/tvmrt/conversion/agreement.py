"""Comparison of a converted network with its original.

Exporters record what one run did: a branch, a size, a number that Python computed. They ignore
options of a model. The network then computes something else, without an error of the exporter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvmrt.conversion.draws import draw
from tvmrt.conversion.exporter import first_sentence
from tvmrt.conversion.original import Input, Original
from tvmrt.error import warn
from tvmrt.option_syntax import option

_RELATIVE = 1e-3  # of each value: more than rounding in float32
_OF_LARGEST = 1e-4  # of the largest value of an output, for sums of values that cancel
_ROUNDING = {"float16": 16, "bfloat16": 128}  # factors of the tolerance for shorter types
_NOISE = 1e-5  # relative change of inputs, to measure the effect of rounding
_NOISE_RUNS = 3
_NOISE_FACTOR = 10  # of the effect of the noise, as tolerance
_SHOWN = 4  # values of an input in an error text


def check(executor: Any, original: Original) -> None:
    """Raise ValueError if a network computes other results than the original.

    The original is run on drawn inputs: values of several kinds, and two more sizes if dimensions
    are dynamic. Differences up to the rounding of float32 are allowed, and of one step in quantised
    tensors; a remark then names the first node with one.

    Parameters
    ----------
    executor
        The converted network, or that of ``original.nodes``, compiled for this machine: a
        ``tvmrt.runtime`` executor.

    Raises
    ------
    ValueError
        Also if the original accepts none of the inputs, or no second size of dynamic dimensions,
        since then nothing shows that the network is right.
    """
    bounds = executor.get_dims().get("dims", {})
    if original.draw is None:
        draws = draw(_inputs_of(executor, original), bounds)
    else:
        draws = original.draw(bounds)
    steps: Counter[str] = Counter()  # values that differ, by quantised node
    for number, (wanted, feeds) in enumerate(draws):
        compared, refusal = 0, None
        for each in feeds:
            try:
                expected = original.run(each)
            except Exception as error:  # of any library: the model does not take these inputs
                refusal = refusal or error
                continue
            steps += _compare(executor, original, each, expected)
            compared += 1
            if compared == wanted:
                break
        if compared == 0 and refusal is not None:
            raise ValueError(_refusal_text(original, refusal, list(bounds) if number else []))
    if original.nodes is not None and steps:
        first = next(name for name in original.nodes.names if steps[name])
        warn(
            f"{original.what}: {steps.total()} values of its quantised tensors are one step away "
            f"from those of the original, first at node {first} ({steps[first]} values), since "
            "biases and sums are integers"
        )


def _inputs_of(executor: Any, original: Original) -> list[Input]:
    """Return the inputs to draw, with the dimensions of the network."""
    shapes, dtypes = executor.get_input_info()
    shapes = {**shapes, **executor.get_dims().get("inputs", {})}
    if original.inputs:
        return [each._replace(shape=shapes.get(each.name, each.shape)) for each in original.inputs]
    examples = original.examples
    named = examples if isinstance(examples, Mapping) else dict(zip(dtypes, examples))
    if (named and named.keys() != dtypes.keys()) or len(named) != len(examples):
        raise ValueError(
            f"{option('example')}: the model has the inputs {', '.join(dtypes)}; give each of them"
        )
    return [Input(n, str(dtype), tuple(shapes[n]), named.get(n)) for n, dtype in dtypes.items()]


def _refusal_text(original: Original, refusal: Exception, dims: Sequence[str]) -> str:
    """Return the error text if nothing was compared. ``dims``: dimensions that have no other
    size."""
    reason = first_sentence(refusal)
    if dims:
        return (
            f"{original.what} takes no other size of {', '.join(dims)} than that of the example "
            f"({reason}); give shapes of numbers only"
        )
    return (
        f"{original.what} takes none of the drawn inputs ({reason}), so its network cannot be "
        f"compared with it; give inputs that it takes with {option('example')}"
    )


def _compare(
    executor: Any, original: Original, feeds: Mapping[str, np.ndarray], expected: Any
) -> Counter[str]:
    """Raise ValueError if a result differs; return the numbers of single steps, by node."""
    results, steps = _run(executor, original, feeds), Counter[str]()
    if original.nodes is None:
        expected = _in_order(executor, expected)
    else:
        expected = original.nodes.run(feeds, results)
        steps = _compare_nodes(original, feeds, results, expected)
        count = len(original.nodes.names)
        results, expected = results[:-count], expected[:-count]
    if len(results) != len(expected):
        raise ValueError(
            f"the network that {original.exporter} makes of {original.what} has {len(results)} "
            f"outputs, and the original {len(expected)}; {original.advice}"
        )
    for number, (actual, possible) in enumerate(zip(results, expected)):
        wanted = _nearest(actual, possible)
        if actual.shape != wanted.shape:
            text = f"has the shape {actual.shape}, and that of the original {wanted.shape}"
            raise ValueError(_difference_text(original, feeds, f"output {number}", text))
        wrong = _differences(actual, wanted, 0)
        if wrong.any():
            effect = _effect_of_rounding(executor, original, feeds, number, actual)
            wrong &= _differences(actual, wanted, effect)
        is_label = wanted.dtype.kind in "iub"
        if not _mostly_same(wrong, original.min_same_labels if is_label else 1.0):
            index = tuple(int(i) for i in np.argwhere(wrong)[0])
            text = f"has {actual[index]} at {index}, and that of the original {wanted[index]}"
            raise ValueError(_difference_text(original, feeds, f"output {number}", text))
    return steps


def _compare_nodes(
    original: Original, feeds: Mapping[str, Any], results: Sequence[Any], expected: Sequence[Any]
) -> Counter[str]:
    """Raise ValueError if a quantised tensor differs by more than one step; return the numbers of
    single steps by node."""
    steps, names = Counter[str](), original.nodes.names if original.nodes else ()
    for name, actual, wanted in zip(names, results[-len(names) :], expected[-len(names) :]):
        distance = np.abs(actual.astype(np.int64) - wanted)
        if (distance > 1).any():
            index = tuple(int(i) for i in np.argwhere(distance > 1)[0])
            text = f"has {actual[index]} at {index}, and that of the original {wanted[index]}"
            raise ValueError(_difference_text(original, feeds, f"node {name}", text))
        steps[name] = int(distance.sum())
    return +steps


def _in_order(executor: Any, results: Any) -> Sequence[Any]:
    """Return the original's outputs in the order of the network's."""
    if not isinstance(results, Mapping):
        return list(results)
    names = [re.sub(r":\d+$", "", str(name)) for name in executor.get_output_info()[1]]
    if {*names} == results.keys():
        return [results[name] for name in names]
    return list(results.values())


def _nearest(actual: np.ndarray, expected: Any) -> np.ndarray:
    """Return the expected output: of a list of possible ones that with the fewest differences."""
    if not isinstance(expected, list):
        return np.asarray(expected)
    fitting = [each.reshape(actual.shape) for each in expected if each.size == actual.size]
    return min(fitting, key=lambda e: _differences(actual, e, 0).sum(), default=expected[0])


def _run(executor: Any, original: Original, feeds: Mapping[str, Any]) -> list[np.ndarray]:
    """Return the outputs of the network; libraries may store names in their C spelling."""
    spelled = {re.sub(r"\W", "_", name, flags=re.ASCII): name for name in feeds}
    try:
        for name in executor.get_input_info()[1]:
            value = feeds[name] if name in feeds else feeds[spelled[name]]
            executor.set_input(name, np.ascontiguousarray(value))
        executor.run()
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        raise ValueError(
            f"the network that {original.exporter} makes of {original.what} does not take "
            f"{_shown(feeds)}, which the original takes ({first_sentence(error)}); "
            f"{original.advice}"
        ) from None
    count = executor.get_num_outputs()
    return [np.asarray(executor.get_output(i).numpy()) for i in range(count)]


def _differences(actual: np.ndarray, expected: np.ndarray, allowed: Any) -> np.ndarray:
    """Return where two outputs differ by more than rounding and ``allowed``."""
    if expected.dtype.kind not in "fiubcV":
        return np.asarray(actual != expected)
    more = max(_ROUNDING.get(str(each.dtype), 1) for each in (actual, expected))
    kind = np.complex128 if expected.dtype.kind == "c" else np.float64
    is_exact = expected.dtype.kind in "iub"
    actual, expected = actual.astype(kind), expected.astype(kind)
    finite = np.abs(expected[np.isfinite(expected)])
    bound = np.zeros(expected.shape)
    if not is_exact:
        bound = _RELATIVE * np.abs(expected) + _OF_LARGEST * finite.max(initial=0)
    with np.errstate(invalid="ignore"):
        close = np.abs(actual - expected) <= more * np.nan_to_num(bound) + allowed
    same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    return np.asarray(~(same | (close & np.isfinite(expected))))


def _effect_of_rounding(
    executor: Any,
    original: Original,
    feeds: Mapping[str, np.ndarray],
    number: int,
    actual: np.ndarray,
) -> Any:
    """Return by how much an output of the original changes with inputs of slightly other values.

    A value next to a threshold, or one of two equal scores, may differ for this reason. Raise
    ValueError if the original gives other results for equal inputs.
    """

    def result(inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        return _as_numbers(_nearest(actual, _in_order(executor, original.run(inputs))[number]))

    results = [result(feeds) for _ in range(2)]
    if _differences(results[0], results[1], 0).any():
        raise ValueError(
            f"{original.what} gives other results for equal inputs, as with random numbers, "
            "dropout in training mode, or a state between calls; a network computes the same "
            "results each time, so make the model do so"
        )
    rng = np.random.default_rng(1)
    effect = np.zeros(results[0].shape)
    for _ in range(_NOISE_RUNS):
        changed = {name: _with_noise(rng, value) for name, value in feeds.items()}
        try:
            other = result(changed)
        except Exception:  # the model takes these values only, such as categories
            return 0
        if other.shape != effect.shape:
            return 0
        effect = np.maximum(effect, np.nan_to_num(np.abs(other - results[0])))
    return _NOISE_FACTOR * effect


def _as_numbers(values: Any) -> np.ndarray:
    array = np.asarray(values)
    return array if array.dtype.kind == "c" else array.astype(np.float64)


def _with_noise(rng: np.random.Generator, value: np.ndarray) -> np.ndarray:
    if value.dtype.kind not in "fcV":
        return value
    return np.asarray(value * (1 + _NOISE * rng.standard_normal(value.shape))).astype(value.dtype)


def _mostly_same(wrong: np.ndarray, min_same: float) -> bool:
    if wrong.size == 0:
        return True
    rows = wrong.reshape(len(wrong) if wrong.ndim else 1, -1).any(axis=1)
    return bool((~rows).mean() >= min_same)


def _difference_text(original: Original, feeds: Mapping[str, Any], place: str, text: str) -> str:
    return (
        f"the network that {original.exporter} makes of {original.what} has other results than the "
        f"original: for {_shown(feeds)} {place} {text}; {original.advice}"
    )


def _shown(feeds: Mapping[str, Any]) -> str:
    """Return inputs as text: names, shapes and the first values."""
    return ", ".join(
        f"{name} = {' '.join(np.array2string(v.ravel()[:_SHOWN], precision=4).split())[:-1]}"
        f"{' ...' if v.size > _SHOWN else ''}] of shape {v.shape}"
        for name, v in feeds.items()
    )
