"""The plug-in interface: what a plug-in adds to tvmrt, and which plug-ins are installed.

A plug-in is one :class:`Plugin`. Built-in plug-ins are the attribute ``PLUGIN`` of
``tvmrt.plugins.<name>.plugin``; installed packages name theirs in the entry point group
``tvmrt.plugins``. Only these small modules are imported, at the first use of a plug-in table. The
rest of a plug-in is imported when its additions are used. The how-to page "Write a plug-in" has a
complete example.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import Any

from tvmrt.file_suffix import suffix_of
from tvmrt.locks import lock_of_process
from tvmrt.option import Option, read_option
from tvmrt.plugin_check import excluded_names, malformed

ENTRY_POINTS = "tvmrt.plugins"
DEVICES = "tvmrt.devices"  # entry points of packages that are not plug-ins
VARIABLE = "TVMRT_PLUGINS"
NETWORKS = (".onnx",)  # file suffixes that the compiler reads without a plug-in
_COMPILED = (".so", ".dylib", ".dll", ".o", ".tar", ".json", ".elf")  # never left to a plug-in


@dataclass(frozen=True)
class Plugin:
    """The additions of one plug-in, as ``"module:attribute"`` references imported at first use.

    Attributes
    ----------
    name
        A letter, followed by letters, digits, "_" and "-".
    summary
        One line for ``tvmrt doctor``.
    requires
        Names of plug-ins that this one imports; if one is missing, this plug-in is left out.
    commands
        Maps a command, such as ``"quantize"`` or ``"device test"``, to a ``click.Command``.
    functions
        Maps the name of a function of ``tvmrt``, as in ``tvmrt.quantize``, to the function.
    servers
        Names of commands that run until a signal ends them; SIGTERM ends the process at once.
    schemas
        Maps the name of a ``--json`` format (a command name with "-" for spaces) to its schema, a
        ``record`` of ``tvmrt.cli.schema_types``, or a pair of its description and a function that
        returns the record.
    devices
        Maps a device name to a subclass or an instance of ``tvmrt.devices.Device``.
    importers
        Maps a file suffix, such as ``".toy"``, to an :class:`Importer`.
    exporters
        Maps a file suffix of ``tvmrt compile -o``, or a folder format of its option ``--format``,
        to a subclass or an instance of :class:`Exporter`.
    options
        Maps a keyword of ``tvmrt.compile`` to the :class:`Option` that describes it.
    operators
        Maps (ONNX domain, operator) to a module that registers importers with ``onnx_op``; the
        reference has no attribute. The operator ``"*"`` stands for the whole domain.
    hooks
        Maps the name of an extension point of the core to the function or module that implements
        it.
    connections
        Maps an option of ``tvmrt run``, ``verify`` and ``bench``, such as ``"--rpc"``, to a
        subclass of ``tvmrt.connection.Connection``, which runs networks remotely.
    targets, boards
        Map a name for ``--target`` or ``--board`` to a ``Target`` or an ``McuFamily`` of
        ``tvmrt.compiler.sdk.codegen``, which have this name, too.
    passes
        Maps the name of a pass to a ``tvmrt.compiler.sdk.pipeline.GraphPass``.
    board_kernels
        Maps ``"int8/NAME"`` or ``"float32/NAME"``, by the kind of layers, to a ``MicroKernel``.
    headers
        Maps a name to an include folder; its ``tvm/runtime/kernels`` has the headers of kernels.
    tolerances
        Maps (ONNX domain, operator) to the allowed error, relative to the maximum of a result.
    """

    name: str
    summary: str
    requires: tuple[str, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)
    servers: tuple[str, ...] = ()
    schemas: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)
    importers: Mapping[str, str] = field(default_factory=dict)
    exporters: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    operators: Mapping[tuple[str, str], str] = field(default_factory=dict)
    hooks: Mapping[str, str] = field(default_factory=dict)
    connections: Mapping[str, str] = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)
    boards: Mapping[str, str] = field(default_factory=dict)
    passes: Mapping[str, str] = field(default_factory=dict)
    board_kernels: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    tolerances: Mapping[tuple[str, str], str] = field(default_factory=dict)


# The tables of a plug-in; each key of a table belongs to one plug-in.
TABLES = tuple(each.name for each in fields(Plugin) if each.default_factory is dict)


class Importer:
    """A reader of network files of one suffix; implement :meth:`import_model` in a subclass.

    The other methods are optional and serve individual commands.

    Attributes
    ----------
    rival
        Name of the runtime that ``tvmrt bench --against`` uses for comparison.
    """

    rival = ""

    def accepts(self, model: Any) -> bool:
        """Return whether it reads a model other than a file of its suffix: bytes, an object or a
        file of another name. A damaged model may be accepted; ``import_model`` then reports it."""
        return False

    def import_model(self, path: Any, request: Any) -> Any:
        """Read the network in a file.

        Parameters
        ----------
        path
            A file, which is unchecked except for its suffix, or a model that it accepts.
        request
            The ``tvmrt.Request``: ``shapes``, ``dims`` and all other options.

        Returns
        -------
        tvmrt.custom.GraphBuilder, onnx.ModelProto or tvmrt.compiler.ir.Graph

        Raises
        ------
        ValueError
            If the file is damaged; the text names the file, the position and the remedy.
        """
        raise NotImplementedError(f"{type(self).__name__} has no import_model()")

    def describe(self, path: Any) -> Any:
        """Describe a file for ``tvmrt inspect`` as a ``tvmrt.cli.describe.Description``."""
        raise self._lacks("describe", path)

    def verify(
        self, path: Any, inputs_file: Any, threads: int, outputs_only: bool, options: Any
    ) -> Any:
        """Compare every tensor of a network for ``tvmrt verify``.

        Return the rows, each a ``tvmrt.cli.tolerance.TensorComparison``, and the name of the
        reference implementation. ``options`` are those of ``tvmrt.compile``.
        """
        raise self._lacks("verify", path)

    def inputs(self, path: Any, inputs_file: Any, options: Any) -> Any:
        """Return input arrays by name for ``tvmrt bench``, from a file or random."""
        raise self._lacks("inputs", path)

    def rival_call(self, path: Any, inputs: Any, threads: int, options: Any) -> Callable[[], Any]:
        """Return a call that runs the network once in the ``rival``, for ``bench --against``."""
        raise self._lacks("rival_call", path)

    def _lacks(self, method: str, path: Any) -> ValueError:
        suffix = suffix_of(path)
        return ValueError(
            f"{path}: this command takes no {suffix} networks: their importer, "
            f"{type(self).__name__}, has no {method}()"
        )


class Exporter:
    """A writer of an output format; implement :meth:`export` or :meth:`files` in a subclass."""

    def export(self, library: Any, path: Any) -> None:
        """Write a compiled network, a ``tvmrt.compiler.export.library.CompiledLibrary``.

        ``path`` is a file, which has a temporary name until it is complete, or an empty folder,
        whose files are moved to the user's destination. Raises ValueError or
        ``tvmrt.error.UnsupportedError`` if the format cannot represent the network; the text names
        an alternative.
        """
        raise NotImplementedError(f"{type(self).__name__} has no export()")

    def defaults(self, name: str) -> Mapping[str, Any]:
        """Return the options that ``tvmrt compile`` uses for a file ``name`` where none are
        given."""
        return {}

    def files(self, library: Any, name: str) -> Mapping[str, str | bytes] | None:
        """Return the contents of the files of a compiled network by name, or None to use
        ``export``.

        All files are written to the folder of the file ``name``, which is one of them. Raises the
        errors of :meth:`export`.
        """
        return None


@dataclass(frozen=True)
class UnusedPlugin:
    """A plug-in that is installed but not used, with the reason."""

    name: str
    reason: str
    plugin: Plugin | None = None


class _Tables:
    """The plug-ins in use, and the entries of each table: key to plug-in and reference."""

    def __init__(self) -> None:
        self.plugins: dict[str, Plugin] = {}
        self.absent: list[UnusedPlugin] = []
        self.entries: dict[str, dict[Any, tuple[Plugin, str]]] = {name: {} for name in TABLES}
        self.options: dict[str, Option] | None = None  # None until they are read
        unwanted = excluded_names(VARIABLE)
        for name, plugin in _discover(self._skip):
            if name in unwanted:
                self.absent.append(UnusedPlugin(name, f"{VARIABLE} leaves it out", plugin))
            elif name in self.plugins:
                self._skip(name, f"there are two of this name, {_origin(plugin)} is the second")
            else:
                self.plugins[name] = plugin
        while lacking := self._missing_requirement():
            plugin, needed = lacking
            del self.plugins[plugin.name]
            reason = f"it requires the plug-in {needed}, which is not used"
            self._skip(plugin.name, reason, plugin)
        for plugin in self.plugins.values():
            self._enter(plugin)

    def _skip(self, name: str, reason: str, plugin: Plugin | None = None) -> None:
        self.absent.append(UnusedPlugin(name, reason, plugin))
        _warn(f"the plug-in {name} is left out: {reason}")

    def _missing_requirement(self) -> tuple[Plugin, str] | None:
        for plugin in self.plugins.values():
            for needed in plugin.requires:
                if needed not in self.plugins:
                    return plugin, needed
        return None

    def _enter(self, plugin: Plugin) -> None:
        for table in TABLES:
            for key, reference in getattr(plugin, table).items():
                first = self.entries[table].get(key)
                if first is None:
                    self.entries[table][key] = plugin, reference
                    continue
                _warn(
                    f"the plug-ins {first[0].name} and {plugin.name} both add {key} to {table}; "
                    f"that of {first[0].name} is used"
                )


def _warn(text: str) -> None:
    from tvmrt.error import TvmrtWarning  # rarely needed

    warnings.warn(text, TvmrtWarning, stacklevel=2)


_lock = lock_of_process()
_tables: list[_Tables] = []


def _read() -> _Tables:
    if not _tables:
        with _lock:
            if not _tables:
                _tables.append(_Tables())
    return _tables[0]


def _discover(skip: Any) -> Iterator[tuple[str, Plugin]]:
    from pkgutil import iter_modules

    from tvmrt import plugins
    from tvmrt.entry_points import entry_points

    for module in sorted(iter_modules(plugins.__path__), key=lambda m: m.name):
        plugin = _loaded(module.name, f"{plugins.__name__}.{module.name}.plugin:PLUGIN", skip)
        if plugin is not None:
            yield plugin.name, plugin
    for point in entry_points(ENTRY_POINTS):
        plugin = _loaded(point.name, point.value, skip)
        if plugin is not None:
            yield plugin.name, plugin


def _loaded(name: str, reference: str, skip: Any) -> Plugin | None:
    try:
        plugin = resolve(reference)
    except Exception as error:  # third-party code may raise anything
        skip(name, f"{reference} does not load: {type(error).__name__}: {error}")
        return None
    if not isinstance(plugin, Plugin):
        skip(name, f"{reference} is not a tvmrt.plugin.Plugin")
        return None
    if wrong := malformed(plugin, TABLES):
        skip(name, f"{reference}: {wrong}")
        return None
    return plugin


def _origin(plugin: Plugin) -> str:
    return next((r for table in TABLES for r in getattr(plugin, table).values()), plugin.summary)


def resolve(reference: str) -> Any:
    """Import the object of a reference: a module, or an attribute of it after a colon."""
    module, _, attribute = reference.partition(":")
    found = import_module(module)
    return getattr(found, attribute) if attribute else found


def plugins() -> dict[str, Plugin]:
    """Return the plug-ins in use, by name; the first call reads them. Thread-safe."""
    return dict(_read().plugins)


def unused() -> list[UnusedPlugin]:
    """Return the plug-ins that are installed but not used, with the reasons."""
    return list(_read().absent)


def keys(table: str) -> list[Any]:
    """Return the keys that all plug-ins add to a table, in the order of the plug-ins."""
    return list(_read().entries[table])


def has(table: str, key: Any) -> bool:
    """Return whether a plug-in adds this key, without importing its code."""
    return key in _read().entries[table]


def owner_of(table: str, key: Any) -> str:
    """Return the name of the plug-in that adds a key. Raises KeyError if none does."""
    return _read().entries[table][key][0].name


def find(table: str, key: Any, kind: type = object) -> Any | None:
    """Import and return the object that a plug-in adds under a key; None if none does. For a
    subclass of ``kind`` it is a new instance.

    Raises
    ------
    ValueError
        If the object is not of that kind; the text names the plug-in.
    ImportError
        If the plug-in's code does not load; the text names the plug-in.
    """
    entry = _read().entries[table].get(key)
    if entry is None:
        return None
    plugin, reference = entry
    try:
        value = resolve(reference)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tvmrt."):
            raise ImportError(f"the plug-in {plugin.name} has no {reference}: {error}") from error
        raise  # a missing optional dependency: the caller names its extra
    except (AttributeError, ImportError) as error:
        raise ImportError(f"the plug-in {plugin.name} does not load: {error}") from error
    if kind is not object and isinstance(value, type) and issubclass(value, kind):
        value = value()
    if not isinstance(value, kind):
        text = f"the plug-in {plugin.name} adds {key!r} to its {table}: {reference}"
        raise ValueError(f"{text} is not of the type {kind.__name__}")
    return value


def device_offers(name: str) -> Iterator[Any]:
    """Yield the objects registered under a device name, by a plug-in and then by entry points of
    other packages: a class, an instance, or the path of a C plug-in. One may be only the C half."""
    found = find("devices", name)
    if found is not None:
        yield found
    from tvmrt.entry_points import entry_points

    for point in entry_points(DEVICES):
        if point.name == name:
            yield point.load()


def hook(name: str, what: str) -> Any:
    """Return the function or module with which a plug-in implements an extension point of the core,
    its key in ``hooks``. Raises ImportError if no plug-in has it; ``what`` names the feature in the
    error, in the words of the user's interface."""
    result = find("hooks", name)
    if result is None:
        reason = why_missing("hooks", name) or "no plug-in has it; 'tvmrt doctor' lists plug-ins"
        raise ImportError(f"{what} is not available: {reason}")
    return result


def linker_of(path: Any) -> Callable[[Any, Any], None] | None:
    """Return the function that links a compiled network in a plug-in's format, ``(file, folder)``:
    it writes ``network.so`` and the metadata to the folder. None for other files."""
    suffix = suffix_of(path)
    return None if suffix in _COMPILED else find("hooks", f"link {suffix}")


def why_missing(table: str, key: Any) -> str | None:
    """Return why a key is missing, if an unused plug-in has it; otherwise None."""
    for each in _read().absent:
        if each.plugin is not None and key in getattr(each.plugin, table):
            what = "::".join(filter(None, key)) if isinstance(key, tuple) else key
            return f"the plug-in {each.name} has {what}, but {each.reason}"
    return None


def is_network(path: str | os.PathLike[str]) -> bool:
    """Return whether a file, by its suffix, is an uncompiled network; plug-ins add formats."""
    suffix = suffix_of(path)
    if not suffix or suffix in _COMPILED:
        return False
    return (
        suffix in NETWORKS
        or has("importers", suffix)
        or why_missing("importers", suffix) is not None
    )


def network_suffixes() -> list[str]:
    """Return the suffixes of network files; suffixes of plug-ins come last."""
    return [*NETWORKS, *keys("importers")]


def importers() -> Iterator[Importer]:
    """Yield all importers of plug-ins; an importer whose code does not load is left out."""
    for suffix in keys("importers"):
        try:
            found: Importer | None = find("importers", suffix, Importer)
        except ImportError:
            continue
        if found is not None:
            yield found


def importer_of_file(path: str | os.PathLike[str]) -> Importer | None:
    """Return the importer for a file's suffix; None if no plug-in has one.

    Raises
    ------
    ValueError
        If only an unused plug-in has one; the text names the plug-in.
    ImportError
        If the plug-in's code does not load.
    """
    suffix = suffix_of(path)
    importer: Importer | None = find("importers", suffix, Importer)
    if importer is not None:
        return importer
    if (reason := why_missing("importers", suffix)) is not None:
        raise ValueError(f"{path}: {reason}")
    return None


def importer_of(model: Any) -> Importer | None:
    """Return the importer for a file's suffix, or else the first that accepts the model.

    Raises the errors of :func:`importer_of_file`.
    """
    if isinstance(model, (str, os.PathLike)):
        if suffix_of(model) in NETWORKS:
            return None
        if (found := importer_of_file(model)) is not None:
            return found
    return next((each for each in importers() if each.accepts(model)), None)


def options(reserved: Collection[str]) -> dict[str, Option]:
    """Return the options that plug-ins add, by keyword; ``reserved`` names are taken already.

    An option that is malformed, does not load or has a taken name is left out with a warning.
    """
    tables = _read()
    if tables.options is None:
        with _lock:
            found = {}
            for key, (owner, reference) in tables.entries["options"].items():
                row, wrong = read_option(key, reference, resolve, reserved)
                if row is None:
                    _warn(f"the option {key} of the plug-in {owner.name} is left out: {wrong}")
                else:
                    found[key] = row
            tables.options = found
    return tables.options
