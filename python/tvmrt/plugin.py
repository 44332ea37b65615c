"""The plug-in interface: what a plug-in adds to tvmrt, and which plug-ins are present.

A plug-in is one :class:`Plugin`. Those of tvmrt's own tree are the attribute ``PLUGIN`` of
``tvmrt.plugins.<name>.plugin``; installed packages name theirs in the entry point group
``tvmrt.plugins``. Only these small modules are read, and only when a table of plug-ins is asked
for; a plug-in's code is imported when what it adds is used. The how-to page "Write a plug-in" has a
complete example.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from tvmrt.option import Option, read_option
from tvmrt.plugin_check import malformed

ENTRY_POINTS = "tvmrt.plugins"
DEVICES = "tvmrt.devices"  # of packages that are no plug-ins
VARIABLE = "TVMRT_PLUGINS"
# The tables of a plug-in; a key of one table belongs to one plug-in.
TABLES = (
    "commands", "schemas", "devices", "importers", "exporters", "options", "operators", "hooks",
    "connections",
)  # fmt: skip
NETWORKS = (".onnx",)  # suffixes that the compiler reads without a plug-in
_COMPILED = (".so", ".dylib", ".dll", ".o", ".tar", ".json", ".elf")  # no plug-in is asked for


@dataclass(frozen=True)
class Plugin:
    """What one plug-in adds. References are ``"module:attribute"`` strings, imported at first use.

    Attributes
    ----------
    name
        A letter, then letters, digits, "_" and "-".
    summary
        One line for ``tvmrt doctor``.
    requires
        Names of plug-ins that this one imports; without one of them it is left out.
    commands
        Name on the command line to a ``click.Command``; ``"device test"`` adds ``test`` to the
        group ``device``.
    servers
        Those commands that serve until a signal ends them; SIGTERM then ends the process at once.
    schemas
        Name of a form of output with ``--json``, a command's with "-" for a blank, to what it has:
        a ``record`` of ``tvmrt.cli.schema_types``.
    devices
        Name of a device to a subclass or an instance of ``tvmrt.devices.Device``.
    importers
        Suffix of a file, such as ``".toy"``, to an :class:`Importer`.
    exporters
        Suffix of a file that ``tvmrt compile -o`` writes, or name of a kind of folder for its
        option ``--format``, to a subclass or an instance of :class:`Exporter`.
    options
        Name of a keyword of ``tvmrt.compile`` to the :class:`Option` that describes it.
    operators
        (ONNX domain, operator) to the module that enters importers with ``onnx_op``, a reference
        without an attribute. ``"*"`` in place of an operator stands for all of the domain.
    hooks
        Name of something that the core leaves to a plug-in to the function or module that
        does it.
    connections
        Option of ``tvmrt run``, ``verify`` and ``bench``, such as ``"--rpc"``, to a subclass of
        ``tvmrt.connection.Connection``, which reaches networks in another place.
    instead
        Name below ``tvm`` that tvmrt does not have to what its users take, a sentence for the
        error.
    """

    name: str
    summary: str
    requires: tuple[str, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    servers: tuple[str, ...] = ()
    schemas: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)
    importers: Mapping[str, str] = field(default_factory=dict)
    exporters: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    operators: Mapping[tuple[str, str], str] = field(default_factory=dict)
    hooks: Mapping[str, str] = field(default_factory=dict)
    connections: Mapping[str, str] = field(default_factory=dict)
    instead: Mapping[str, str] = field(default_factory=dict)


class Importer:
    """A reader of network files of one suffix; subclass it and fill :meth:`import_model`.

    The other methods are optional: what commands ask of the format.

    Attributes
    ----------
    rival
        Name of the runtime that ``tvmrt bench --against`` compares such networks with.
    """

    rival = ""

    def accepts(self, model: Any) -> bool:
        """Whether it reads a model that is not a file of its suffix: bytes, an object of its own
        or a file of another name. Damaged ones may be accepted; ``import_model`` reports them."""
        return False

    def import_model(self, path: Any, request: Any) -> Any:
        """Read the network in a file.

        Parameters
        ----------
        path
            The file, of which nothing is known but its suffix, or a model that it accepts.
        request
            The ``tvmrt.Request``: ``shapes``, ``dims`` and all other options.

        Returns
        -------
        tvmrt.custom.GraphBuilder, onnx.ModelProto or tvmrt.compiler.ir.Graph

        Raises
        ------
        ValueError
            If the file is damaged; the text names the file, the place in it and what to do.
        """
        raise NotImplementedError(f"{type(self).__name__} has no import_model()")

    def describe(self, path: Any) -> Any:
        """Describe a file for ``tvmrt inspect``: a ``tvmrt.cli.describe.Description``."""
        raise self._lacks("describe", path)

    def verify(
        self, path: Any, inputs_file: Any, threads: int, outputs_only: bool, options: Any
    ) -> Any:
        """Compare every tensor of a network for ``tvmrt verify``.

        Returns the rows, each a ``tvmrt.cli.tolerance.Row``, and who judged. ``options`` are those
        of ``tvmrt.compile``.
        """
        raise self._lacks("verify", path)

    def inputs(self, path: Any, inputs_file: Any, options: Any) -> Any:
        """Arrays by the names of inputs for ``tvmrt bench``, from a file or made up."""
        raise self._lacks("inputs", path)

    def rival_call(self, path: Any, inputs: Any, threads: int, options: Any) -> Callable[[], Any]:
        """One run of the network by the ``rival``, for ``tvmrt bench --against``."""
        raise self._lacks("rival_call", path)

    def _lacks(self, method: str, path: Any) -> ValueError:
        suffix = os.path.splitext(os.fspath(path))[1]
        return ValueError(
            f"{path}: this command takes no {suffix} networks: their importer, "
            f"{type(self).__name__}, has no {method}()"
        )


class Exporter:
    """A writer of compiled networks in a format of its own; subclass it and fill :meth:`export`."""

    def export(self, library: Any, path: Any) -> None:
        """Write a network.

        Parameters
        ----------
        library
            The ``tvmrt.compiler.export.library.CompiledLibrary``.
        path
            The file to write, which has a temporary name until it is complete, or an empty folder,
            whose files are moved to where the user wants them.

        Raises
        ------
        ValueError, tvmrt.error.UnsupportedError
            If the format cannot have such a network; the text says what to choose instead.
        """
        raise NotImplementedError(f"{type(self).__name__} has no export()")


@dataclass(frozen=True)
class Absent:
    """A plug-in that is there and not used, and why."""

    name: str
    reason: str
    plugin: Plugin | None = None


class _Tables:
    """All plug-ins that are used, and what each table has: key to plug-in and reference."""

    def __init__(self) -> None:
        self.plugins: dict[str, Plugin] = {}
        self.absent: list[Absent] = []
        self.entries: dict[str, dict[Any, tuple[Plugin, str]]] = {name: {} for name in TABLES}
        self.options: dict[str, Option] | None = None  # those that are read
        unwanted = _unwanted()
        for name, plugin in _found(self._leave_out):
            if name in unwanted:
                self.absent.append(Absent(name, f"{VARIABLE} leaves it out", plugin))
            elif name in self.plugins:
                self._leave_out(name, f"there are two of this name, {_home(plugin)} is the second")
            else:
                self.plugins[name] = plugin
        while lacking := self._lacking():
            plugin, needed = lacking
            del self.plugins[plugin.name]
            reason = f"it requires the plug-in {needed}, which is not used"
            self._leave_out(plugin.name, reason, plugin)
        for plugin in self.plugins.values():
            self._enter(plugin)

    def _leave_out(self, name: str, reason: str, plugin: Plugin | None = None) -> None:
        self.absent.append(Absent(name, reason, plugin))
        _remark(f"the plug-in {name} is left out: {reason}")

    def _lacking(self) -> tuple[Plugin, str] | None:
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
                _remark(
                    f"the plug-ins {first[0].name} and {plugin.name} both add {key} to {table}; "
                    f"that of {first[0].name} is used"
                )


def _remark(text: str) -> None:
    from tvmrt.error import Remark  # seldom needed

    warnings.warn(text, Remark, stacklevel=2)


_lock = threading.RLock()
_tables: list[_Tables] = []
_reader: list[int] = []  # the thread that reads the plug-ins now


def _read() -> _Tables:
    if not _tables:
        with _lock:
            if not _tables:
                _reader.append(threading.get_ident())
                try:
                    _tables.append(_Tables())
                finally:
                    _reader.clear()
    return _tables[0]


def _unwanted() -> set[str]:
    """The names that the variable leaves out, each with "-" before it."""
    names = [name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]
    for name in names:
        if not name.startswith("-"):
            raise ValueError(f"{VARIABLE}: write -{name} to leave the plug-in {name} out")
    return {name[1:] for name in names}


def _found(leave_out: Any) -> Iterator[tuple[str, Plugin]]:
    from pkgutil import iter_modules

    from tvmrt import plugins
    from tvmrt.entry_points import entry_points

    for module in sorted(iter_modules(plugins.__path__), key=lambda m: m.name):
        plugin = _loaded(module.name, f"{plugins.__name__}.{module.name}.plugin:PLUGIN", leave_out)
        if plugin is not None:
            yield plugin.name, plugin
    for point in entry_points(ENTRY_POINTS):
        plugin = _loaded(point.name, point.value, leave_out)
        if plugin is not None:
            yield plugin.name, plugin


def _loaded(name: str, reference: str, leave_out: Any) -> Plugin | None:
    try:
        plugin = resolve(reference)
    except Exception as error:  # whatever code of somebody else raises
        leave_out(name, f"{reference} does not load: {type(error).__name__}: {error}")
        return None
    if not isinstance(plugin, Plugin):
        leave_out(name, f"{reference} is not a tvmrt.plugin.Plugin")
        return None
    if wrong := malformed(plugin, TABLES):
        leave_out(name, f"{reference}: {wrong}")
        return None
    return plugin


def _home(plugin: Plugin) -> str:
    references = (r for table in TABLES for r in getattr(plugin, table).values())
    return next(references, plugin.summary)


def resolve(reference: str) -> Any:
    """Import what a reference stands for: a module, or an attribute of it behind a colon."""
    module, _, attribute = reference.partition(":")
    found = import_module(module)
    return getattr(found, attribute) if attribute else found


def plugins() -> dict[str, Plugin]:
    """The plug-ins that are used, by name; reads them at the first call. Thread-safe."""
    return dict(_read().plugins)


def absent() -> list[Absent]:
    """The plug-ins that are there and not used, with the reason."""
    return list(_read().absent)


def keys(table: str) -> list[Any]:
    """What all plug-ins add to one of the tables, in the order of the plug-ins."""
    return list(_read().entries[table])


def has(table: str, key: Any) -> bool:
    """Whether a plug-in adds this key; imports nothing of it."""
    return key in _read().entries[table]


def owner_of(table: str, key: Any) -> str:
    """The name of the plug-in that adds a key. Raises KeyError if none does."""
    return _read().entries[table][key][0].name


def find(table: str, key: Any) -> Any | None:
    """What a plug-in adds under a key, imported now; None if no plug-in has it.

    Raises
    ------
    ImportError
        If the plug-in's code does not load; the text names the plug-in.
    """
    entry = _read().entries[table].get(key)
    if entry is None:
        return None
    plugin, reference = entry
    try:
        return resolve(reference)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tvmrt."):
            raise ImportError(f"the plug-in {plugin.name} has no {reference}: {error}") from error
        raise  # a package that an extra brings: the caller says which
    except (AttributeError, ImportError) as error:
        raise ImportError(f"the plug-in {plugin.name} does not load: {error}") from error


def device_offers(name: str) -> Iterator[Any]:
    """What is offered under the name of a device, by a plug-in and then by entry points of other
    packages: a class, an instance, or the path of a C plug-in. One may bring the C half alone."""
    found = find("devices", name)
    if found is not None:
        yield found
    from tvmrt.entry_points import entry_points

    for point in entry_points(DEVICES):
        if point.name == name:
            yield point.load()


def hook(name: str, what: str) -> Any:
    """The function or module that a plug-in adds for something that the core leaves to it.

    Parameters
    ----------
    name
        Its key in ``hooks``.
    what
        What is asked, in words of the user's interface, for the error.

    Raises
    ------
    ImportError
        If no plug-in has it.
    """
    found = find("hooks", name)
    if found is None:
        reason = why_absent("hooks", name) or "no plug-in has it; 'tvmrt doctor' lists plug-ins"
        raise ImportError(f"{what} is not available: {reason}")
    return found


def instead(name: str) -> str | None:
    """What plug-ins say to users of a name of TVM; None for one that a plug-in itself imports."""
    if _reader == [threading.get_ident()]:
        return None
    return next((p.instead[name] for p in _read().plugins.values() if name in p.instead), None)


def why_absent(table: str, key: Any) -> str | None:
    """Why nothing is found under a key, where a plug-in that is not used has it."""
    for each in _read().absent:
        if each.plugin is not None and key in getattr(each.plugin, table):
            what = "::".join(filter(None, key)) if isinstance(key, tuple) else key
            return f"the plug-in {each.name} has {what}, but {each.reason}"
    return None


def is_network(path: str | os.PathLike[str]) -> bool:
    """Tell by its suffix a file that has to be compiled first; plug-ins may read more formats."""
    suffix = os.path.splitext(os.fspath(path))[1]
    if not suffix or suffix in _COMPILED:
        return False
    return (
        suffix in NETWORKS
        or has("importers", suffix)
        or why_absent("importers", suffix) is not None
    )


def network_suffixes() -> list[str]:
    """Suffixes of files that are networks, those of plug-ins last."""
    return [*NETWORKS, *keys("importers")]


def importers() -> Iterator[Importer]:
    """All importers of plug-ins; one whose code does not load is left out."""
    for suffix in keys("importers"):
        try:
            found = find("importers", suffix)
        except ImportError:
            continue
        if found is not None:
            yield found()


def importer_of_file(path: str | os.PathLike[str]) -> Importer | None:
    """The importer of a file by its suffix; None if no plug-in has one.

    Raises
    ------
    ValueError
        If a plug-in has one that is not used; the text names the plug-in.
    ImportError
        If the plug-in's code does not load.
    """
    suffix = os.path.splitext(os.fspath(path))[1]
    found = find("importers", suffix)
    if found is not None:
        importer: Importer = found()
        return importer
    if (reason := why_absent("importers", suffix)) is not None:
        raise ValueError(f"{path}: {reason}")
    return None


def importer_of(model: Any) -> Importer | None:
    """The importer of a model: that of a file's suffix, else the first that accepts the model.

    Raises as :func:`importer_of_file` does.
    """
    if isinstance(model, (str, os.PathLike)):
        if os.path.splitext(os.fspath(model))[1] in NETWORKS:
            return None
        if (found := importer_of_file(model)) is not None:
            return found
    return next((each for each in importers() if each.accepts(model)), None)


def options(reserved: Collection[str]) -> dict[str, Option]:
    """The options that plug-ins add, by keyword; ``reserved`` are those that there are already.

    One that is no option, does not load or has no name of its own is left out; a remark says why.
    """
    tables = _read()
    if tables.options is None:
        with _lock:
            found = {}
            for key, (owner, reference) in tables.entries["options"].items():
                row, wrong = read_option(key, reference, resolve, reserved)
                if row is None:
                    _remark(f"the option {key} of the plug-in {owner.name} is left out: {wrong}")
                else:
                    found[key] = row
            tables.options = found
    return tables.options
