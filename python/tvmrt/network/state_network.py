"""Networks whose states are inputs, and outputs of the run before, such as caches."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from typing import Any

import numpy as np

from tvmrt.error import SizeConditionError
from tvmrt.network.array_conversion import as_array, convert_dtype
from tvmrt.network.executor_pool import Context
from tvmrt.network.network import Network
from tvmrt.network.session import Session
from tvmrt.network.size_variants import InputSizeError
from tvmrt.runtime.executor.base import Executor
from tvmrt.runtime.ndarray import array
from tvmrt.tensor_info import TensorInfo

# Words of exporters for states. They decide no pair, only whether pairs are missing.
_STATE_WORDS = re.compile("past|cache|state|hidden|prev", re.IGNORECASE)


@dataclass(frozen=True)
class _State:
    """An input and the output that is its next value, with their numbers."""

    info: TensorInfo
    after: TensorInfo
    input: int
    output: int
    in_place: bool  # both may be one tensor

    def initial(self, sizes: Mapping[Any, int]) -> np.ndarray[Any, Any]:
        """Return zeros; ``sizes``: of the dimensions of the other inputs."""
        shape = [
            extent if isinstance(extent, int) else sizes.get(extent, -1) if extent == after else 0
            for extent, after in zip(self.info.shape, self.after.shape)
        ]
        if -1 in shape:
            raise ValueError(
                f"no input has the dimension {self.info.shape[shape.index(-1)]} of the state "
                f"{self.info.name}; give its first value with reset(states=...)"
            )
        return np.zeros(shape, np.dtype(self.info.dtype))


class _StateNetwork(Network):
    """Network without the inputs and outputs that are states; its only executor keeps these."""

    def __init__(self, network: Network, pairs: Mapping[str, str], in_place: Iterable[str]) -> None:
        self._whole, self._pairs, self._in_place = network, pairs, set(in_place)
        self._guard = threading.RLock()
        self._pending: list[Any] | None = None  # values to set before the next run
        self._is_new = True
        super().__init__(network._loaded, network.metadata, network.name)

    def _describe(self, executor: Executor) -> None:
        super()._describe(executor)
        inputs = {each.name: i for i, each in enumerate(self._inputs)}
        outputs = {each.name: i for i, each in enumerate(self._outputs)}
        self._state_list = []
        for name, output in self._pairs.items():
            i, k = inputs.pop(name), outputs.pop(output)
            infos, number = (self._inputs[i], self._outputs[k]), self._input_indices[i]
            self._state_list.append(_State(*infos, number, k, name in self._in_place))
        kept = list(inputs.values())
        places = self._input_positions.items()
        self._input_positions = {name: kept.index(i) for name, i in places if i in kept}
        self._inputs = [self._inputs[i] for i in kept]
        self._input_indices = [self._input_indices[i] for i in kept]
        self._output_indices = list(outputs.values())
        self._outputs = [self._outputs[k] for k in self._output_indices]
        self._ports = self._plain_ports()

    def _keep_idle(self, contexts: Iterable[Context], count: int) -> None:
        super()._keep_idle(contexts, 1)
        self._feed_back = self._executor.module["feed_back"]
        moving = (each for each in self._state_list if not each.in_place)
        self._numbers = [n for each in moving for n in (each.output, each.input)]
        self._fast = self._call_fast if self._ports else None

    @property
    def _executor(self) -> Executor:
        return self._idle[0].executor

    def _call_fast(self, arguments: tuple[Any, ...]) -> Any:
        with self._guard:
            if self._is_new or self._pending is not None:
                return NotImplemented
            result = self._idle[0].call(*arguments)
            if self._numbers and result is not NotImplemented:
                self._feed_back(*self._numbers)
            return result

    def run_once(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the outputs that are not states, for arrays of the other inputs' types."""
        with self._guard:
            values = self._pending
            if self._is_new and values is None:
                pairs = (zip(e.shape, a.shape) for e, a in zip(self._inputs, arrays))
                sizes = dict(chain.from_iterable(pairs))
                values = [each.initial(sizes) for each in self._state_list]
            try:
                self._set_states(values or ())
                results = super().run_once(arrays)
            except (InputSizeError, SizeConditionError) as error:
                return self._run_variant(arrays, values or [*self.copied().values()], error)
            self._feed_back(*self._numbers)
            self._pending, self._is_new = None, False
            return results

    def _set_states(self, values: Iterable[Any]) -> None:
        for state, value in zip(self._state_list, values):
            if state.in_place:  # one tensor, as no other operator reads the input
                tensor = array(value)
                self._executor.module["set_output_zero_copy"](state.output, tensor)
                self._executor.module["set_input_zero_copy"](state.input, tensor)
            else:
                self._set(self._idle[0], state.input, value, state.info)

    def _run_variant(self, arrays: Sequence[Any], values: Sequence[Any], error: Any) -> list[Any]:
        """Run once on a network that is compiled for these sizes, as for caches of length 0."""
        variants = self._whole.variants
        if variants is None:
            raise error
        given = {each.input: value for each, value in zip(self._state_list, values)}
        given.update(zip(self._input_indices, arrays))
        ordered = [given[number] for number in self._whole._input_indices]
        results = variants.run(self._whole, ordered, error)
        self._pending = [results[each.output] for each in self._state_list]
        self._is_new = False
        return [results[k] for k in self._output_indices]

    def _after_fork(self) -> None:
        super()._after_fork()
        self._guard = threading.RLock()

    def copied(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return copies of the states by name."""
        with self._guard:
            if self._pending is not None:
                return {e.info.name: v.copy() for e, v in zip(self._state_list, self._pending)}
            if self._is_new:
                return {}
            read = self._executor.get_input
            return {e.info.name: read(e.input).numpy() for e in self._state_list}

    def restart(self, states: Mapping[str, Any] | None) -> None:
        """Begin with these states, or with the initial ones."""
        names = [each.info.name for each in self._state_list]
        if states is not None and set(states) != set(names):
            raise ValueError(f"states: give all of {', '.join(names)}, and nothing else")
        with self._guard:
            self.reset_state()
            self._is_new, self._pending = True, None
            if states is not None:
                self._pending = [
                    np.array(convert_dtype(as_array(states[each.info.name]), each.info.dtype))
                    for each in self._state_list
                ]


def session_of(network: Network, states: Mapping[str, str] | None) -> Session:
    """Return a session; ``states`` maps inputs to outputs. Raise ValueError if pairs are not
    certain."""
    facts = network._loaded.facts()
    proved: dict[str, str] = facts.get("carried", {})
    inputs = {each.name: each for each in network.inputs}
    outputs = {each.name: each for each in network.outputs}
    if states is None:
        missing = [name for name in inputs if name not in proved and _STATE_WORDS.search(name)]
        if missing or not proved:
            raise ValueError(_uncertain(network, proved, missing))
        states = proved
    for name, output in states.items():
        if name not in inputs or output not in outputs:
            raise ValueError(
                f"states: {name!r}: {output!r} is not a pair of an input and an output; there are "
                f"the inputs {', '.join(inputs)} and the outputs {', '.join(outputs)}"
            )
        if not _fits(inputs[name], outputs[output]):
            raise ValueError(
                f"states: the output {output} of shape {outputs[output].shape} cannot be the "
                f"input {name} of shape {inputs[name].shape}; give the outputs of these inputs"
            )
    if len({*states.values()}) < len(states) or not states:
        raise ValueError("states: give each input an output of its own, as {input: output}")
    in_place = [name for name in facts.get("in_place", ()) if states.get(name) == proved[name]]
    return Session(_StateNetwork(network, states, in_place))


def _fits(before: TensorInfo, after: TensorInfo) -> bool:
    """Return whether an output may be the input of the next call."""
    return (
        before.dtype == after.dtype
        and len(before.shape) == len(after.shape)
        and all(isinstance(a, str) or a == b for a, b in zip(before.shape, after.shape))
    )


def _uncertain(network: Network, proved: Mapping[str, str], missing: Sequence[str]) -> str:
    """Return the error text, which proposes outputs of equal types and similar names."""
    pairs = dict(proved)
    for each in network.inputs:
        if each.name in proved or (missing and each.name not in missing):
            continue
        fitting = [o.name for o in network.outputs if _fits(each, o)]
        free = [name for name in fitting if name not in pairs.values()]
        pairs.update((each.name, name) for name in get_close_matches(each.name, free, 1, 0))
    proposal = f", such as {pairs} if that is right" if pairs else ""
    return (
        f"{network.name}: which outputs are the next values of {', '.join(missing) or 'inputs'} is "
        f"not certain; give session(states={{input: output, ...}}){proposal}"
    )
