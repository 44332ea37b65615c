"""The compiler from end to end: from a network to a library that can be exported.

``frontend -> ir -> transform -> partition -> codegen (program) -> planner -> codegen (C) ->
export``; each stage is a function, and ``stages.py`` calls them in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmrt.compiler.codegen.options import SharedImage
from tvmrt.compiler.codegen.shared_workspace import plan_memory
from tvmrt.compiler.converted import exact, with_conversion
from tvmrt.compiler.export.library import CompiledLibrary
from tvmrt.compiler.ir.sizes.assumptions import known_sign
from tvmrt.compiler.ir.sizes.undecided import deciding_by
from tvmrt.compiler.option_docs import documented
from tvmrt.compiler.request import Request, make
from tvmrt.compiler.symbols import prefix_of
from tvmrt.option_syntax import options

from .check_conversion import check_conversion
from .open_dims import compile_with_open_dims
from .stages import C_COMPILER, STAGES, LoweredNetwork, lower_network, on_board

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tvmrt.compiler.codegen.target import Target
    from tvmrt.compiler.export.image import CompiledImage
    from tvmrt.compiler.option_types import CompileOptions


@documented
def compile(
    model: Any, request: Request | None = None, **options: Unpack[CompileOptions]
) -> CompiledLibrary:
    """Compile an ONNX or TensorFlow Lite network, or a model of another framework.

    A model of another framework is converted. Its network is also compiled for this machine, run
    and compared with the model.

    Parameters
    ----------
    model
        Path of an ``.onnx`` or ``.tflite`` file, an ``onnx.ModelProto``, the bytes of a
        ``.tflite`` file, a ``tvmrt.custom.GraphBuilder``, or a model of PyTorch, Keras,
        TensorFlow or scikit-learn, as for ``tvmrt.load``.
    request
        All options as one ``tvmrt.Request``, instead of single options.
    {options}

    Returns
    -------
    A CompiledLibrary. The C compiler runs when it is exported.

    Raises
    ------
    OSError, ValueError, KeyError, TypeError for a bad file or argument; ValueError for a network
    that computes something else than the model that it was made of; UnsupportedError for a
    network that the compiler does not support. Every error text is one sentence.
    """
    model, requested, converted = with_conversion(model, _request(request, options))
    library = compile_with_open_dims(requested, partial(_compiled, model))
    if converted.original is not None:
        compared = converted.original.network_to_compare(model)
        here = compile_with_open_dims(exact(requested), partial(_compiled, compared))
        check_conversion(here, converted.original)
    return library


def _compiled(model: Any, request: Request, target: Target | None = None) -> CompiledLibrary:
    """Compile for the target of the request, or for another one."""
    with deciding_by(known_sign):
        library = _compiled_for_sizes(model, request, target)
    library.for_target = partial(_compiled, model, request)
    return library


def _compiled_for_sizes(model: Any, request: Request, target: Target | None) -> CompiledLibrary:
    lowered = lower_network(model, request, target)
    with lowered.clock.stage("plan"), on_board(lowered):
        (planned,) = plan_memory([lowered.need], lowered.placement)
    return lowered.generate(planned)


def _request(request: Request | None, options: Mapping[str, Any]) -> Request:
    if request is None:
        return make(options)
    if options or not isinstance(request, Request):
        raise TypeError("pass options by keyword, or all of them in one tvmrt.Request")
    return make({name: value for name, _, value in request.options()})


def compile_together(
    networks: Mapping[str, Any],
    concurrent: bool | Sequence[Sequence[str]] = False,
    image_name: str = "image",
    shapes: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
    dims: Mapping[str, Mapping[str, Any]] | None = None,
    sequences: Mapping[str, Mapping[str, int | None]] | None = None,
    values: Mapping[str, Mapping[str, int | Sequence[int]]] | None = None,
    **options: Any,
) -> CompiledImage:
    """Compile several networks for one program without an operating system.

    They share one workspace and one set of pools of the size of the largest network, and store
    equal weights once.

    Parameters
    ----------
    networks
        Models (see :func:`compile`) by the names that they get in symbols.
    concurrent
        Networks that may be live at the same time: one runs during a run of another, or while
        another's inputs or outputs in the pools are in use. Their memory is not shared, so its
        sizes add up. True: all networks; otherwise groups of names, each network in at most one.
        Networks of different groups run one after the other.
    image_name
        Name of the shared parts: ``tvmgen_<image_name>.h``.
    shapes
        By network: extents of inputs with symbolic dimensions, by input name.
    dims
        By network: dynamic dimensions with their bounds.
    sequences
        By network: numbers of elements of inputs that are sequences.
    values
        By network: values of inputs that are the same in all runs.
    options
        Options of :func:`compile`, for all networks. The runtime must be crt.

    Returns
    -------
    A CompiledImage with each network as CompiledLibrary; export writes one archive or folder.

    Raises
    ------
    The errors of :func:`compile`.
    """
    from tvmrt.compiler.export.image import CompiledImage, check_names, live_groups

    names = list(networks)
    check_names(names, image_name)
    groups = live_groups(names, concurrent)
    sizes = {"shapes": shapes or {}, "dims": dims or {}, "sequences": sequences or {}}
    sizes["values"] = values or {}
    live = [[names.index(name) for name in group] for group in groups]
    libraries = _generate_image(_lower_networks(networks, make(options), sizes), live, image_name)
    return CompiledImage(image_name, libraries, groups)


def _lower_networks(
    networks: Mapping[str, Any], requested: Request, sizes: Mapping[str, Mapping[str, Any]]
) -> list[LoweredNetwork]:
    """Return the networks as drafts. ``sizes``: options that differ between networks."""
    lowered_networks = []
    for name, model in networks.items():
        folder = None if requested.dump_dir is None else Path(requested.dump_dir, name)
        own: dict[str, Any] = {field: of_networks.get(name) for field, of_networks in sizes.items()}
        lowered_networks.append(
            lower_network(model, replace(requested, module_name=name, dump_dir=folder, **own))
        )
    if any(
        not d.need.options.firmware or d.need.options.executor != "aot" for d in lowered_networks
    ):
        raise ValueError(options("compiling networks together needs {runtime=crt} (or a firmware "
        "{target}) and {executor=aot}"))  # fmt: skip
    if any(d.need.options.weights_in_blob for d in lowered_networks):
        text = "networks of one image share equal weights in flash; choose {params=flash}"
        raise ValueError(options(text))
    return lowered_networks


def _generate_image(
    lowered_networks: Sequence[LoweredNetwork], live: Sequence[Sequence[int]], image_name: str
) -> list[CompiledLibrary]:
    """Generate code that shares memory and weights. ``live``: groups that run at the same time."""
    from tvmrt.compiler.codegen.firmware.state import reject_shared_workspace

    needs = [lowered.need for lowered in lowered_networks]
    reject_shared_workspace([need.program for need in needs], live)
    with lowered_networks[0].clock.stage("plan"), on_board(lowered_networks[0]):
        planned = plan_memory(needs, lowered_networks[0].placement, live)
    image, libraries = SharedImage(prefix_of(image_name)), []
    for lowered, places in zip(lowered_networks, planned):
        libraries.append(lowered.generate(places, image))
        image = image.after(libraries[-1].sources)
    return libraries


__all__ = ["C_COMPILER", "STAGES", "compile", "compile_together"]
