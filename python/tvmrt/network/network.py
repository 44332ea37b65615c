"""A compiled network as a function that any number of threads may call."""

from __future__ import annotations

import importlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, cast

import numpy as np

from tvmrt.conversion import columns
from tvmrt.error import NameNotFoundError, SizeConditionError
from tvmrt.network import array_conversion, executor_pool, tables
from tvmrt.network.default_inputs import DefaultInputs
from tvmrt.network.executor_pool import Context, Ports, ports_of
from tvmrt.network.inputs import largest, random_inputs
from tvmrt.network.loaded_library import (
    LoadedLibrary,
    format_shape,
    open_module,
    unique_output_names,
)
from tvmrt.network.open_sizes import bounds_text, public_bounds
from tvmrt.network.sidecar import Memory, NetworkMetadata, public_names
from tvmrt.network.size_variants import InputSizeError, SizeVariants, open_axes
from tvmrt.network.suggest_bounds import mismatch, with_sizes
from tvmrt.network.tensor_infos import describe_tensors, is_plain
from tvmrt.runtime.executor.base import Executor
from tvmrt.runtime.module import Module
from tvmrt.tensor_info import TensorInfo

if TYPE_CHECKING:
    from tvmrt.compiler.export.library import CompiledLibrary
    from tvmrt.network.measure import Timing
    from tvmrt.network.report import Report
    from tvmrt.network.session import Session
    from tvmrt.network.stream import Stream


class Network:
    """A compiled network, called as a function.

    ``network(x)`` or ``network(name=x, ...)`` returns the output, or a tuple of several outputs. A
    dictionary of inputs returns a dictionary of outputs, by name. Results have the same type as the
    inputs: NumPy arrays, DLPack tensors (such as PyTorch's) or NDArrays. Lists count as NumPy
    arrays. The results belong to the caller.

    Calls are atomic and thread-safe. Concurrent calls each use their own inputs, outputs and
    intermediate tensors (``memory.arena_bytes``) and share the weights. A network that keeps state
    between calls, such as the state of recurrent layers, has one set of tensors, and its calls
    wait for each other. After a fork, parent and child may both call it.

    A call with sizes of undeclared dimensions that the network does not take compiles a variant for
    them, kept for later calls, if it was loaded from a source, such as an ``.onnx`` file. Copies by
    ``pickle`` and networks that keep state do not; their calls, and those for which no variant
    compiles, raise ValueError. No call is run in parts.

    Tensors of up to ``max_idle`` concurrent calls are kept. ``form`` is ``compiled``, or
    ``kernel-pack`` if no C compiler was used; it stays what it is.

    Instances are created by ``tvmrt.load``.
    """

    def __init__(self, loaded: LoadedLibrary, metadata: NetworkMetadata, name: str) -> None:
        self._loaded = loaded
        self.metadata, self.name = metadata, name
        self.form = "kernel-pack" if metadata.target == "kernel-pack" else "compiled"
        first = loaded.make()
        # compiles the network again; None if this process did not compile it
        self.recompile: Callable[[], CompiledLibrary] | None = None
        self.variants: SizeVariants | None = None
        self.default_inputs = DefaultInputs()
        self._lock = threading.Lock() if loaded.keeps_state() else None
        self._timed: str | None = None
        self._columns = columns.of_entries(loaded.facts().get("columns", ()))
        self._describe(first)
        self._keep_idle([Context(first, self._ports)], executor_pool.DEFAULT_MAX_IDLE)
        _forked.add(self)

    def _keep_idle(self, contexts: Iterable[Context], count: int) -> None:
        """Keep at most this number of idle executors."""
        idle = deque(contexts, count)
        release = executor_pool.unused_releaser(idle)
        self._idle, self._release_unused = idle, release
        self._fast = self._ports and executor_pool.fast_call(
            idle, release, self.new_executor, self._ports
        )

    def _describe(self, executor: Executor) -> None:
        dims = executor.get_dims()
        self._bounds: dict[str, Sequence[int]] = dims.get("dims", {})
        metadata = self.metadata
        self._inputs = describe_tensors(
            executor.get_input_info(), dims.get("inputs", {}), metadata.inputs
        )
        said = list(executor.get_output_info()[1].values())
        names = (
            metadata.outputs
            if len(metadata.outputs) == len(said)
            else unique_output_names(executor)
        )
        self._outputs = describe_tensors(executor.get_output_info(), dims.get("outputs", {}), names)
        self._output_indices = list(range(len(self._outputs)))
        own_names = list(executor.get_input_info()[1])
        self._input_indices = [executor.get_input_index(each) for each in own_names]
        self._input_positions = {each.name: i for i, each in enumerate(self._inputs)}
        for i, own in enumerate(own_names):
            self._input_positions.setdefault(own, i)
        for alias, name in self.metadata.aliases.items():
            self._input_positions.setdefault(alias, self._input_positions[name])
        self._ports = self._plain_ports()

    def _plain_ports(self) -> Ports | None:
        """Return the ports of the fast path; None if calls need the general one."""
        more = self._lock is not None or self.metadata.labels or self.metadata.bundles
        if more or not all(map(is_plain, (*self._inputs, *self._outputs))):
            return None
        inputs = ports_of(self._input_indices, self._inputs)
        return inputs, ports_of(self._output_indices, self._outputs)

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Run the network.

        Parameters
        ----------
        inputs
            The inputs in their order, or one dictionary of all of them.
        named
            Inputs by name; also those with a default value in the ONNX file.

        Raises
        ------
        KeyError
            If there is no input of this name.
        TypeError
            If an input is missing or given twice, or its element type cannot be converted without
            loss. Floating-point values are rounded.
        ValueError
            If a shape does not match.
        """
        if self._fast is not None and not (named and inputs):
            arrays = self._all_named(named) if named else inputs
            if arrays is not None and (result := self._fast(arrays)) is not NotImplemented:
                return result
        if len(inputs) == 1 < len(self._inputs) and tables.is_table(inputs[0]):
            named, inputs = tables.inputs_of(inputs[0], self._inputs) | named, inputs[1:]
        by_name = len(inputs) == 1 and not named and isinstance(inputs[0], Mapping)
        if by_name:
            named = dict(inputs[0])
            inputs = ()
        if named or len(inputs) != len(self._inputs) or self.metadata.bundles:
            result = self.default_inputs.call(self._public_inputs(), inputs, named, by_name)
            if result is not NotImplemented:
                return result
            inputs = self._order_inputs(inputs, named)
        wrap = array_conversion.result_converter(inputs)
        results = self._run(inputs)
        if wrap is not None:
            results = [wrap(each) for each in results]
        if by_name or self.metadata.labels or self.metadata.bundles:
            return self._by_name(results, by_name)
        return results[0] if len(results) == 1 else tuple(results)

    async def acall(self, /, *inputs: Any, **named: Any) -> Any:
        """Run the network as ``__call__`` does, on another thread; the event loop continues."""
        import asyncio  # an awaiting caller has imported it already

        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, partial(self, *inputs, **named))

    def reset_state(self) -> None:
        """Reset the state of a network that keeps tensors between calls."""
        if self._lock is not None:
            with self._lock:
                self._idle[0].executor.reset_state()

    def with_threads(self, threads: int) -> Network:
        """Return the network with at most this number of threads for each operator.

        The calling thread is one of them. The networks share the weights.
        """
        other = Network(replace(self._loaded, threads=threads), self.metadata, self.name)
        other.recompile = self.recompile
        other.max_idle = self.max_idle
        if self.variants is not None:
            other.variants = self.variants.with_threads(threads)
        other.default_inputs = self.default_inputs.with_threads(threads)
        return other

    def compile_on_demand(self, compile_for: Callable[[dict[str, Any]], Network]) -> None:
        """Let calls with other sizes of dimensions that the caller did not declare compile a
        variant. ``compile_for`` returns the network with other ``dims``."""
        axes = open_axes(self._inputs, self.metadata.open_axes)
        if axes and self._lock is None:
            self.variants = SizeVariants(axes, compile_for)

    def stream(self) -> Stream:
        """Return a new stream, which is called as the network is and has a state of its own.

        The network and its streams share the weights. Each stream starts from the initial state
        and may be called by another thread. Raises ValueError if the network keeps no state.
        """
        from tvmrt.network.stream import Stream

        if self._lock is None:
            raise ValueError(
                f"{self.name} keeps no state between calls, so there is nothing to stream; call "
                "the network, or compile it so that it takes its input in parts"
            )
        return Stream(Network(self._loaded, self.metadata, self.name))

    def session(self, states: Mapping[str, str] | None = None) -> Session:
        """Return a new session, which keeps inputs such as the caches of a decoder between calls.

        ``states``: by name, these inputs and the outputs that are their next values; default: those
        that the compiler has proved. Raises ValueError if they are not certain, or do not fit.
        """
        # by name, because a session's network is a subclass of this class
        module = importlib.import_module("tvmrt.network.state_network")
        return cast("Session", module.session_of(self, states))

    def _run(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs as NumPy arrays owned by the caller."""
        arrays = array_conversion.converted(inputs, self._inputs, self._columns)
        if self.variants is None:
            return self.run_once(arrays)
        variant = self.variants.known(arrays)
        if variant is not None:
            return variant.run_once(arrays)
        try:
            return self.run_once(arrays)
        except (InputSizeError, SizeConditionError) as error:
            return self.variants.run(self, arrays, error)

    def run_once(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the outputs for arrays of the inputs' types. Raises InputSizeError and
        SizeConditionError."""
        if self._lock is None:
            return self._run_in_context(arrays)
        with self._lock:
            return self._run_in_context(arrays)

    def _run_in_context(self, arrays: Sequence[Any]) -> list[Any]:
        # pop and append of a deque are atomic, so no lock is held during a fork
        try:
            context = self._idle.pop()
        except IndexError:
            context = Context(self._loaded.make(), self._ports)
        try:
            for number, value, info in zip(self._input_indices, arrays, self._inputs):
                self._set(context, number, value, info)
            context.run()
            return [context.result(i) for i in self._output_indices]
        except SizeConditionError as error:
            raise with_sizes(error, self._inputs, arrays) from None
        finally:
            self._idle.append(context)
            if len(self._idle) > 1:
                self._release_unused()

    def _set(self, context: Context, number: int, value: Any, info: TensorInfo) -> None:
        try:
            context.set_input(number, value)
        except (ValueError, TypeError) as error:
            stateful = self._lock is not None
            problem, remedy = mismatch(error, np.shape(value), info, self._bounds, stateful)
            if isinstance(error, TypeError):
                raise TypeError(problem) from None
            raise InputSizeError(problem, remedy) from None

    def _all_named(self, named: dict[str, Any]) -> tuple[Any, ...] | None:
        """Return all inputs in order if each, and nothing else, is given by name; else None."""
        try:
            ordered = tuple([named[each.name] for each in self._inputs])
        except KeyError:
            return None
        return ordered if len(ordered) == len(named) else None

    def _order_inputs(self, inputs: Sequence[Any], named: dict[str, Any]) -> tuple[Any, ...]:
        """Return all inputs in order, with sequences and optional values split into tensors."""
        values = self._split_bundles(inputs, named)
        ordered: list[Any] = [_MISSING] * len(self._inputs)
        for name, value in values.items():
            position = self._input_positions.get(name)
            if position is None:
                raise NameNotFoundError(
                    f"the network has no input {name!r}; its inputs are {self._names()}"
                )
            if ordered[position] is not _MISSING:
                raise TypeError(f"input {name!r} is given twice")
            ordered[position] = value
        for value, info in zip(ordered, self._inputs):
            if value is _MISSING:
                raise TypeError(f"input {info.name!r} is missing; the inputs are {self._names()}")
        return tuple(ordered)

    def _split_bundles(self, inputs: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
        names = self._public_inputs()
        if len(inputs) > len(names):
            raise TypeError(
                f"{len(inputs)} inputs are given; the network has {len(names)}: {self._names()}"
            )
        result = dict(zip(names, inputs))
        for name, value in named.items():
            if name in result:
                raise TypeError(f"input {name!r} is given twice")
            result[name] = value
        for name, bundle in self.metadata.bundles.items():
            if name in names:
                result.update(bundle.flatten(name, result.pop(name, None)))
        return result

    def _public_inputs(self) -> list[str]:
        return public_names([each.name for each in self._inputs], self.metadata.bundles)

    def _names(self) -> str:
        return ", ".join(self._public_inputs()) or "none"

    def _by_name(self, results: Sequence[Any], as_mapping: bool) -> Any:
        """Return the outputs with labels, sequences and optional values restored."""
        by_name = dict(zip((each.name for each in self._outputs), results))
        for name, labels in self.metadata.labels.items():
            if by_name[name].dtype.kind == "i":
                by_name[name] = np.asarray(labels, object)[by_name[name]]
        bundles = self.metadata.bundles
        names = public_names(list(by_name), bundles)
        outputs = {
            name: bundles[name].gather(by_name.__getitem__) if name in bundles else by_name[name]
            for name in names
        }
        if as_mapping:
            return outputs
        return next(iter(outputs.values())) if len(outputs) == 1 else tuple(outputs.values())

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Name, type and shape of each input; a dynamic dimension is given by its name."""
        return tuple(self._inputs)

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Name, type and shape of each output; a dynamic dimension is given by its name."""
        return tuple(self._outputs)

    @property
    def dims(self) -> dict[str, tuple[int, int | None]]:
        """Minimum and maximum of each dynamic dimension, by name; the maximum of one that the file
        leaves open and the caller did not declare is None."""
        return public_bounds(self._bounds)

    @property
    def max_idle(self) -> int:
        """Maximum number of idle executors, each with its own tensors (``memory.arena_bytes``),
        that are kept for later calls. Default: the number of processors that the process may use.
        Further executors, created for more concurrent calls, are released after them. An
        executor that no call has used for a while is released by later calls. 0 keeps none."""
        return cast(int, self._idle.maxlen)

    @max_idle.setter
    def max_idle(self, count: int) -> None:
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise ValueError(f"max_idle: give a number of executors, 0 or more, not {count!r:.60}")
        if self._lock is None:  # a network with state has one executor
            self._keep_idle(self._idle, count)
            for each in self.variants.networks if self.variants is not None else ():
                each.max_idle = count

    @property
    def keeps_state(self) -> bool:
        """Whether tensors are kept between calls, which wait for each other."""
        return self._lock is not None

    @property
    def memory(self) -> Memory | None:
        """Memory use of the network; None for a library that was loaded compiled."""
        return self.metadata.memory

    def example_inputs(self) -> dict[str, np.ndarray]:
        """Return reproducible random inputs with the maximum extents, or moderate ones of
        dimensions without a maximum."""
        return random_inputs([largest(each, self._bounds) for each in self._inputs])

    def benchmark(self, /, *inputs: Any, seconds: float = 1.0, **named: Any) -> Timing:
        """Measure the time of calls for some seconds, on random inputs if none are given."""
        from tvmrt.network.measure import measure  # not needed for calls

        if not inputs and not named:
            named = self.example_inputs()
        return measure(lambda: self(*inputs, **named), seconds)

    def profile(self, /, *inputs: Any, **named: Any) -> Any:
        """Run once and return the time of each operator, a ``tvmrt.runtime.profiling.Report``.

        Inputs are given as in a call; without any, random inputs are used.
        """
        return self.warm_executor(*inputs, **named).profile()

    def report(self, /, *inputs: Any, **named: Any) -> Report:
        """Return a report of the network: its graph, its memory and the time of each operator.

        Notebooks show it as a page; ``report().save("net.html")`` writes that page. The network is
        compiled again, because a library does not record its memory layout. ``inputs`` and
        ``named`` are for the timing; random if not given.

        Raises
        ------
        ValueError
            If it was loaded from a compiled library; load the network file instead.
        ImportError
            If no plug-in creates reports.
        """
        from tvmrt import plugin

        if isinstance(next(iter(inputs), None), (str, os.PathLike)):
            raise TypeError("report() takes inputs; write the page with report().save(path)")
        if self.recompile is None:
            raise ValueError(
                f"{self.name} was loaded from a compiled library, which lacks the data of a "
                "report; load the network file"
            )
        if self.variants is not None:  # a report has the numbers of one run
            arrays = self._arrays_or_examples(inputs, named)
            network = cast("Network", self.variants.exact(self, arrays))
            return network.report({each.name: a for each, a in zip(self._inputs, arrays)})
        make: Callable[..., Report] = plugin.hook("network report", "report()")
        return make(self.recompile(), self.name, self.warm_executor(*inputs, **named))

    def warm_executor(self, /, *inputs: Any, **named: Any) -> Executor:
        """Return a new executor that has run once, on random inputs if none are given."""
        executor = self.new_executor()
        values = self._arrays_or_examples(inputs, named)
        for number, value in zip(self._input_indices, values):
            executor.set_input(number, value)
        executor.run()
        return executor

    def _arrays_or_examples(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any]:
        """Return arrays of the inputs' types in order, random ones if none are given."""
        if not inputs and not named:
            named = self.example_inputs()
        by_name = len(inputs) == 1 and not named and isinstance(inputs[0], Mapping)
        arguments = ((), dict(inputs[0])) if by_name else (inputs, dict(named))
        ordered = self._order_inputs(*arguments)
        return array_conversion.converted(ordered, self._inputs, self._columns)

    def new_executor(self) -> Executor:
        """Return a new executor of the network: a GraphModule or an AotModule."""
        return self._loaded.make()

    def __repr__(self) -> str:
        lines = [f"tvmrt.Network {self.name}"]
        for title, tensors in (("in", self._inputs), ("out", self._outputs)):
            lines += [f"  {title:3} {e.name}: {e.dtype} {format_shape(e.shape)}" for e in tensors]
        lines += [f"  {bounds_text(name, *bounds)}" for name, bounds in self.dims.items()]
        lines += [] if self.memory is None else [f"  {self.memory}"]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the HTML for notebooks: inputs, outputs, the time of a run, and memory use."""
        from tvmrt.network.notebook import html, run_time  # only notebooks need it

        if self._timed is None:
            self._timed = run_time(self.warm_executor)
        notes = (str(self.memory or ""), self._timed)
        return html(self.name, self._inputs, self._outputs, self.dims, notes)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the bytes of the library; the copy starts with its own state."""
        return _unpickle, (self._loaded.module, self.metadata, self.name, self._loaded.threads)

    def _after_fork(self) -> None:
        if self._lock is not None:
            self._lock = threading.Lock()
        if self.variants is not None:
            self.variants.after_fork()


def _unpickle(
    module: Module, metadata: NetworkMetadata, name: str, threads: int | None = None
) -> Network:
    return Network(replace(open_module(module, name), threads=threads), metadata, name)


_MISSING = object()
_forked: weakref.WeakSet[Network] = weakref.WeakSet()


def _renew_locks() -> None:
    for network in list(_forked):
        network._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
