"""The common base of the graph and AOT executors: inputs, outputs, runs, measurements.

The packed functions of the module are looked up once, so a run adds little to the time of the
network's own code.
"""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import numpy as np

from tvmrt.error import NameNotFoundError, TVMError
from tvmrt.option_syntax import option
from tvmrt.runtime import strings
from tvmrt.runtime.device import RPC_SESSION_MASK, Device
from tvmrt.runtime.module import BenchmarkResult, Module
from tvmrt.runtime.ndarray import NDArray, array, convert_elements, from_dlpack
from tvmrt.runtime.packed_func import PackedFunc

__all__ = ["Executor"]

_UNASKED = object()


def _other_sizes(name: str, actual: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Return the end of an error text: the option for a network that takes other sizes, too."""
    if len(actual) != len(shape) or actual == shape:
        return ""
    sizes = tuple(
        n
        if n == size
        else f"{'N' if i == 0 else f'D{i}'}{f'<={max(n, size)}' if n else f'=0..{size}'}"
        for i, (n, size) in enumerate(zip(actual, shape))
    )
    return f"; compile the network with {option('shapes', {name: sizes})} for several sizes"


class Executor:
    """A network that is ready to run; one thread at a time may use it.

    It has one set of inputs, outputs and workspaces. A concurrent call from another thread raises
    RuntimeError. To keep the inputs of several threads apart, use a lock or one executor per
    thread; executors share the weights.

    Parameters
    ----------
    module
        The executor's module, such as ``library["default"](tvmrt.cpu(0))``.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self._run = module["run"]
        self._get_output = module["get_output"]
        self._get_input = module["get_input"]
        self._get_num_outputs = module["get_num_outputs"]
        self._get_num_inputs = module["get_num_inputs"]
        self._get_input_index = module["get_input_index"]
        self._set_input = module["set_input"]
        self._zero_copy: dict[str, PackedFunc] = {}
        self._alive: dict[Any, Any] = {}
        self._dims_cache: Any = _UNASKED

    # ---- inputs ----

    def set_input(self, key: str | int | None = None, value: Any = None, **params: Any) -> None:
        """Copy values to inputs.

        Parameters
        ----------
        key
            Name or index of an input.
        value
            Its value: a NumPy array, an NDArray, or anything that ``numpy.asarray`` takes. Elements
            are converted to the input's type. The shape must match the input's; dynamic dimensions
            (see get_dims()) may have any extent within their bounds. An input of strings takes
            strings, which this object copies.
        params
            More inputs and parameters by name. Unknown names are ignored, so a whole set of
            parameters can be given.

        Raises
        ------
        KeyError
            If there is no input `key`.
        ValueError
            If a shape does not match.
        """
        if key is not None:
            kind = type(value)
            if kind is np.ndarray or kind is NDArray:
                try:
                    self._set_input(key, value)
                except _NEEDS_CONVERSION:
                    self._set_converted(key, value)
            else:
                self._set_converted(key, value)
        if params:
            for name, item in params.items():
                if self._index(name) >= 0:
                    self.set_input(name, item)

    def _set_converted(self, key: str | int, value: Any) -> None:
        """Set an input from a value of another type or layout; report a value that does not fit."""
        self._check_input(key)
        target = self._get_input(key)
        if target.dtype == "handle":
            self._set_strings(key, value, target)
            return
        # with dynamic dimensions, the runtime checks the shape
        shape = np.shape(value) if self._dims() else target.shape
        try:
            converted = convert_elements(value, shape, target.dtype)
        except (TypeError, ValueError) as error:
            name = self._input_name(key)
            remedy = _other_sizes(name, np.shape(value), shape)
            raise type(error)(f"input {name!r}: {error}{remedy}") from None
        if target.device.device_type >= RPC_SESSION_MASK:
            self._set_input(key, array(converted, target.device))
            return
        # NumPy has no names for element types of other packages
        self._set_input(key, array(converted) if converted.dtype.isbuiltin != 1 else converted)

    def _input_name(self, key: str | int) -> str:
        """Return the name of an input given by name or index; the index if it has none."""
        try:
            names = self.get_input_info()[1]
        except (AttributeError, TVMError):
            return str(key)
        return next((name for name in names if key in (name, self._index(name))), str(key))

    def _set_strings(self, key: str | int, value: Any, target: NDArray) -> None:
        """Set an input of strings and keep their bytes until they are replaced."""
        try:
            tensor, kept = strings.packed(value, None if self._dims() else target.shape)
        except (TypeError, ValueError) as error:
            raise type(error)(f"input {key!r}: {error}") from None
        self._set_input(key, tensor)
        self._alive["strings", self._index(key) if isinstance(key, str) else key] = kept

    def _dims(self) -> str | None:
        """Return the JSON text about dynamic dimensions; None if all shapes are fixed."""
        if self._dims_cache is _UNASKED:
            try:
                self._dims_cache = self.module["get_dims"]()
            except (AttributeError, TVMError):  # an executor that tvmrt did not create
                self._dims_cache = None
        return self._dims_cache

    def get_dims(self) -> dict[str, Any]:
        """Return the dynamic dimensions, and where they occur.

        Returns
        -------
        ``{"dims": {name: [min, max]}, "inputs": {name: [extent, ...]}, "outputs": ...}``; an
        extent is a number or the text of an expression of dimensions. Empty if all are fixed. The
        maximum of a dimension without one is 2147483647.
        """
        return json.loads(self._dims() or "{}")

    def reset_state(self) -> None:
        """Reset the state that the network keeps between runs, such as the state of recurrent
        layers; without state, nothing happens."""
        self.module["reset_state"]()

    def set_num_threads(self, count: int) -> None:
        """Let each operator, and copies of tensors, use at most ``count`` threads.

        The caller's is one of them. 0 removes the limit; the limit of the process,
        ``TVM_NUM_THREADS``, stays. Networks compiled for real time stay on the caller's thread.
        """
        self.module["set_num_threads"](count)

    def _check_input(self, key: str | int) -> None:
        """Raise unless the network has an input of this name or index."""
        if isinstance(key, str):
            found = self._index(key) >= 0
        else:
            found = 0 <= key < self._get_num_inputs()
        if not found:
            raise NameNotFoundError(f"there is no input {key!r}; {self._input_names()}")

    def _input_names(self) -> str:
        try:
            names = ", ".join(self.get_input_info()[0])
        except (AttributeError, TVMError):
            return f"there are {self._get_num_inputs()}"
        return f"the inputs are {names}"

    def _index(self, name: str) -> int:
        try:
            return self._get_input_index(name)
        except (TVMError, LookupError, ValueError):  # raised by the AOT executor
            return -1

    def set_input_zero_copy(
        self, key: str | int | None = None, value: Any = None, **params: Any
    ) -> None:
        """Let inputs use the memory of tensors instead of the executor's own.

        This object keeps each tensor until another one replaces it. A tensor must have the input's
        shape and device, be contiguous and aligned to 64 bytes.

        Parameters
        ----------
        key
            Name or index of an input.
        value
            An NDArray, or anything with ``__dlpack__``.
        params
            More inputs by name.
        """
        for name, item in _pairs(key, value, params):
            self._check_input(name)
            tensor = _as_tensor(item, f"input {name!r}")
            self._bind("set_input_zero_copy", name, tensor)
            self._alive["input", self._index(name) if isinstance(name, str) else name] = tensor

    def _bind(self, function: str, key: str | int, tensor: NDArray) -> None:
        packed = self._zero_copy.get(function)
        if packed is None:  # executors that tvmrt did not create may lack it
            packed = self._zero_copy[function] = self.module[function]
        packed(key, tensor)

    def get_input(self, index: str | int, out: NDArray | None = None) -> NDArray:
        """Return an input: a tensor that borrows the executor's memory, or a copy in `out`."""
        self._check_input(index)
        tensor = self._get_input(index)
        return tensor if out is None else tensor.copyto(out)

    def __repr__(self) -> str:
        count = self.get_num_inputs(), self.get_num_outputs()
        return f"<{type(self).__name__}, inputs: {count[0]}, outputs: {count[1]}>"

    def get_num_inputs(self) -> int:
        """Return the number of inputs, including parameters."""
        return self._get_num_inputs()

    def get_input_index(self, name: str) -> int:
        """Return the index of an input, or -1 if there is none of that name."""
        return self._index(name)

    def get_output_index(self, name: str) -> int:
        """Return the index of an output, or -1 if there is none of that name.

        The graph executor names outputs ``<name>:<index>``; a unique name alone is also accepted.
        """
        return self.module["get_output_index"](name)

    def _info(self, name: str) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        info = self.module[name]()
        shapes = {str(key): tuple(shape) for key, shape in info["shape"].items()}
        return shapes, {str(key): str(dtype) for key, dtype in info["dtype"].items()}

    def get_input_info(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """Return the shapes and the element types of the inputs, each by name."""
        return self._info("get_input_info")

    def get_output_info(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """Return the shapes and the element types of the outputs, each by name."""
        return self._info("get_output_info")

    # ---- runs and outputs ----

    def run(self, **input_dict: Any) -> None:
        """Set the given inputs, then run the network.

        Raises
        ------
        KeyError
            If there is no input of this name.
        """
        if input_dict:
            for name, value in input_dict.items():
                self.set_input(name, value)
        self._run()

    def set_output_zero_copy(self, key: str | int, value: Any) -> None:
        """Let an output be written directly to a tensor's memory; see set_input_zero_copy().

        The output of TensorScatter, ScatterND or ScatterElements may use the memory of the input
        that it updates, a cache for example: nothing is copied then. No other node may read that
        input.

        Parameters
        ----------
        key
            Name or index of an output.
        value
            An NDArray, or anything with ``__dlpack__``.
        """
        tensor = _as_tensor(value, f"output {key!r}")
        self._bind("set_output_zero_copy", key, tensor)
        self._alive["output", key] = tensor

    def get_num_outputs(self) -> int:
        """Return the number of outputs."""
        return self._get_num_outputs()

    def get_output(
        self, index: int | str, out: NDArray | None = None
    ) -> NDArray | strings.StringTensor:
        """Return an output.

        Parameters
        ----------
        index
            Index of the output or, if the executor knows names, its name.
        out
            A tensor to copy to. Without it, the result borrows the executor's memory: the next run
            overwrites its elements and, with dynamic dimensions, its shape. ``numpy()`` of an
            output of strings returns an independent array of objects.
        """
        if out is not None:
            self._get_output(index, out)
            return out
        tensor = self._get_output(index)
        return strings.StringTensor(tensor) if tensor.dtype == "handle" else tensor

    def load_params(self, params_bytes: bytes | bytearray) -> None:
        """Set parameters from bytes created by save_param_dict()."""
        self.module["load_params"](params_bytes)

    def __getitem__(self, key: str) -> PackedFunc:
        """Return a packed function of the executor's module."""
        return self.module[key]

    # ---- measurements ----

    def time_evaluator(self, func_name: str, dev: Device, **options: Any) -> Any:
        """Return a function that measures a function of the executor; see Module's method."""
        return self.module.time_evaluator(func_name, dev, **options)

    def benchmark(
        self,
        device: Device,
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: int | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        **kwargs: Any,
    ) -> BenchmarkResult:
        """Measure the network.

        Parameters
        ----------
        device
            The device that it runs on.
        func_name
            Name of the function to measure.
        repeat, number, min_repeat_ms, limit_zero_time_iterations, cooldown_interval_ms, \
        repeats_to_cooldown
            See Module.time_evaluator().
        end_to_end
            Whether to include copying inputs and outputs.
        kwargs
            Inputs to set before the measurement.
        """
        if end_to_end:
            return self._benchmark_end_to_end(repeat, number, min_repeat_ms or 0, kwargs)
        for name, value in kwargs.items():
            self.set_input(name, value)
        evaluate = self.module.time_evaluator(
            func_name,
            device,
            number=number,
            repeat=repeat,
            min_repeat_ms=min_repeat_ms or 0,
            limit_zero_time_iterations=limit_zero_time_iterations,
            cooldown_interval_ms=cooldown_interval_ms,
            repeats_to_cooldown=repeats_to_cooldown,
        )
        return evaluate()

    def _benchmark_end_to_end(
        self, repeat: int, number: int, min_repeat_ms: int, inputs: dict[str, Any]
    ) -> BenchmarkResult:
        outputs = range(self.get_num_outputs())

        def run_all() -> None:
            self.run(**inputs)
            for index in outputs:
                self._get_output(index).numpy()

        run_all()
        results = []
        for _ in range(repeat):
            start, runs = time.perf_counter(), 0
            for _ in itertools.count():
                run_all()
                runs += 1
                if runs >= number and time.perf_counter() - start >= min_repeat_ms / 1000:
                    break
            results.append((time.perf_counter() - start) / runs)
        return BenchmarkResult(results)

    def profile(self, collectors: Any = None, **input_dict: Any) -> Any:
        """Run once and return the time of each operator.

        Parameters
        ----------
        collectors
            Accepted for compatibility; only wall-clock time is collected.
        input_dict
            Inputs to set before the run.

        Returns
        -------
        tvmrt.runtime.profiling.Report
        """
        from tvmrt.runtime.profiling import Report

        for name, value in input_dict.items():
            self.set_input(name, value)
        return Report(self.module["profile_rpc"]())


_NEEDS_CONVERSION = (TypeError, ValueError, LookupError, TVMError)


def _pairs(key: str | int | None, value: Any, params: dict[str, Any]) -> list[tuple[Any, Any]]:
    first = [] if key is None else [(key, value)]
    return [*first, *params.items()]


def _as_tensor(value: Any, where: str) -> NDArray:
    if isinstance(value, NDArray):
        return value
    try:
        return from_dlpack(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{where}: {error}") from None
