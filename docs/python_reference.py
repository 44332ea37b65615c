"""The page of the Python API, made of the docstrings in the sources.

Nothing is imported but the options of ``tvmrt.compile``, which fill their place in its docstring.
"""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from runpy import run_path

from tvmrt.compiler import option_rules, request

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "python" / "tvmrt"

HEAD = """# The Python API

`docs/generate_reference.py` makes this page from the docstrings. Names of the runtime of `tvm` 0.8
to 0.18 are at the same path with the same behaviour.
"""


@dataclass(frozen=True)
class Entry:
    """A documented name: where users find it, and the file and the name that define it."""

    public: str
    file: str
    name: str


SECTIONS = {
    "Networks as functions": [
        Entry("tvmrt.load", "network/loading.py", "load"),
        Entry("tvmrt.Network", "network/network.py", "Network"),
    ],
    "Compile": [
        Entry("tvmrt.compile", "compiler/pipeline/__init__.py", "compile"),
        Entry("tvmrt.Request", "compiler/request.py", "Request"),
        Entry("tvmrt.compile_together", "compiler/pipeline/__init__.py", "compile_together"),
        Entry(
            "tvmrt.compiler.export.library.CompiledLibrary",
            "compiler/export/library.py",
            "CompiledLibrary",
        ),
        Entry("tvmrt.compiler.export.summary.Summary", "compiler/export/summary.py", "Summary"),
        Entry(
            "tvmrt.compiler.export.image.CompiledImage", "compiler/export/image.py", "CompiledImage"
        ),
    ],
    "Operators of one's own": [
        Entry("tvmrt.custom.Kernel", "compiler/custom/kernel.py", "Kernel"),
        Entry("tvmrt.custom.Tensor", "compiler/custom/operand.py", "Tensor"),
        Entry("tvmrt.custom.C", "compiler/custom/bodies.py", "C"),
        Entry("tvmrt.custom.OpenCL", "compiler/custom/bodies.py", "OpenCL"),
        Entry("tvmrt.custom.composed", "compiler/custom/composed.py", "composed"),
        Entry("tvmrt.custom.GraphBuilder", "compiler/custom/graph_builder.py", "GraphBuilder"),
        Entry("tvmrt.custom.Instance", "compiler/custom/operator.py", "Instance"),
        Entry("tvmrt.custom.load_operators", "compiler/custom/sources.py", "load_operators"),
        Entry(
            "tvmrt.custom.installed_operators",
            "compiler/custom/catalogue.py",
            "installed_operators",
        ),
    ],
    "Devices that run parts of a network": [
        Entry("tvmrt.devices.Device", "compiler/devices/base.py", "Device"),
        Entry("tvmrt.devices.PythonDevice", "compiler/devices/python_device.py", "PythonDevice"),
        Entry("tvmrt.devices.Context", "compiler/devices/base.py", "Context"),
        Entry("tvmrt.devices.Region", "compiler/ir/region.py", "Region"),
        Entry("tvmrt.devices.CSource", "compiler/ir/region.py", "CSource"),
        Entry("tvmrt.devices.Needs", "compiler/ir/region.py", "Needs"),
        Entry("tvmrt.devices.Vendor", "compiler/ir/region.py", "Vendor"),
        Entry("tvmrt.devices.ModuleBlob", "compiler/ir/region.py", "ModuleBlob"),
        Entry("tvmrt.devices.ExprVisitor", "compiler/devices/expr_visitor.py", "ExprVisitor"),
        Entry("tvmrt.devices.region_blob", "compiler/devices/region_json.py", "region_blob"),
        Entry("tvmrt.devices.register", "compiler/devices/registry.py", "register"),
        Entry("tvmrt.devices.unregister", "compiler/devices/registry.py", "unregister"),
        Entry("tvmrt.devices.get", "compiler/devices/registry.py", "get"),
        Entry("tvmrt.devices.names", "compiler/devices/registry.py", "names"),
        Entry("tvmrt.load_device_plugin", "runtime/plugin.py", "load_device_plugin"),
        Entry("tvmrt.runtime.list_devices", "runtime/plugin.py", "list_devices"),
        Entry("tvmrt.runtime.set_device_options", "runtime/plugin.py", "set_device_options"),
    ],
    "Load and run": [
        Entry("tvmrt.runtime.load_module", "runtime/module.py", "load_module"),
        Entry("tvmrt.contrib.graph_executor.GraphModule",
              "runtime/executor/graph_executor.py", "GraphModule"),
        Entry("tvmrt.runtime.executor.AotModule", "runtime/executor/aot_executor.py", "AotModule"),
        Entry("tvmrt.runtime.executor.base.Executor", "runtime/executor/base.py", "Executor"),
        Entry("tvmrt.contrib.graph_executor.create", "contrib/graph_executor.py", "create"),
        Entry("tvmrt.runtime.profiling.Report", "runtime/profiling/__init__.py", "Report"),
    ],
    "ONNX's interface of backends": [
        Entry("tvmrt.onnx_backend.Backend", "onnx_backend.py", "Backend"),
        Entry("tvmrt.onnx_backend.CompiledModel", "onnx_backend.py", "CompiledModel"),
    ],
    "Modules and functions": [
        Entry("tvmrt.runtime.Module", "runtime/module.py", "Module"),
        Entry("tvmrt.runtime.BenchmarkResult", "runtime/module.py", "BenchmarkResult"),
        Entry("tvmrt.runtime.system_lib", "runtime/module.py", "system_lib"),
        Entry("tvmrt.get_global_func", "runtime/packed_func.py", "get_global_func"),
        Entry("tvmrt.register_func", "runtime/packed_func.py", "register_func"),
    ],
    "Tensors and devices": [
        Entry("tvmrt.nd.array", "runtime/ndarray.py", "array"),
        Entry("tvmrt.nd.empty", "runtime/ndarray.py", "empty"),
        Entry("tvmrt.nd.from_dlpack", "runtime/ndarray.py", "from_dlpack"),
        Entry("tvmrt.nd.NDArray", "runtime/ndarray.py", "NDArray"),
        Entry("tvmrt.device", "runtime/device.py", "device"),
        Entry("tvmrt.Device", "runtime/device.py", "Device"),
        Entry("tvmrt.runtime.save_param_dict", "runtime/params.py", "save_param_dict"),
        Entry("tvmrt.runtime.load_param_dict", "runtime/params.py", "load_param_dict"),
    ],
    "Errors": [
        Entry("tvmrt.TVMError", "error.py", "TVMError"),
        Entry("tvmrt.error.UnsupportedError", "error.py", "UnsupportedError"),
        Entry("tvmrt.error.CompileError", "error.py", "CompileError"),
    ],
}  # fmt: skip

LINE = 96
NAMES = re.compile(r"^[\w*]+(, [\w*]+)*$")
UNDERLINE = re.compile(r"^-{3,}$")


Sections = dict[str, list[Entry]]


def page(head: str = HEAD, sections: Sections = SECTIONS) -> str:
    """Return the page of these sections, the core's if none are given."""
    parts = [head.rstrip()]
    for title, entries in sections.items():
        parts.append(f"## {title}")
        parts += [_entry(entry) for entry in entries]
    return "\n\n".join(parts) + "\n"


def plugin_sections(folder: Path) -> Sections:
    """Return what a plug-in adds: ``ENTRIES`` of its file ``docs/reference_pages.py``."""
    file = folder / "docs" / "reference_pages.py"
    entries = run_path(str(file)).get("ENTRIES", {}) if file.is_file() else {}
    return {title: [Entry(*row) for row in rows] for title, rows in entries.items()}


def all_sections() -> Sections:
    """Return the core's sections with what the plug-ins add, as the site shows them."""
    result = {title: [*entries] for title, entries in SECTIONS.items()}
    for folder in sorted(ROOT.glob("plugins/*")):
        for title, entries in plugin_sections(folder).items():
            result.setdefault(title, []).extend(entries)
    return result


def _entry(entry: Entry) -> str:
    node = _find(entry)
    if isinstance(node, ast.ClassDef):
        return _class(entry.public, node)
    return f"### {entry.public}\n\n{_function(entry.public, node)}"


def _source(entry: Entry) -> Path:
    """The file that defines a name, of the core or of a plug-in."""
    files = [PACKAGE / entry.file, *ROOT.glob(f"plugins/*/public/{entry.file}")]
    return next(file for file in files if file.is_file())


def _find(entry: Entry) -> ast.ClassDef | ast.FunctionDef:
    tree = ast.parse(_source(entry).read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == entry.name:
            return node
    raise LookupError(f"{entry.file} defines no {entry.name}; the list of names is out of date")


def _function(name: str, node: ast.FunctionDef) -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    call = f"{name}({_arguments(node)}){returns}"
    if len(call) > LINE or _takes_options(node):
        arguments = "".join(f"    {argument},\n" for argument in _split_arguments(node))
        call = f"{name}(\n{arguments}){returns}"
    refused = f"\n\n{_refused()}" if _takes_options(node) else ""
    return f"```text\n{call}\n```\n\n{_text(node)}{refused}"


def _refused() -> str:
    """Return the list of option combinations that are rejected, with the error texts."""
    sentences = [re.sub(r"{\w+}", "N", rule.sentence) for rule in option_rules.RULES]
    return "\n".join(["**Refused**", "", *(f"- {sentence}" for sentence in sentences)])


def _split_arguments(node: ast.FunctionDef) -> list[str]:
    """Return the arguments one by one; those with a default are the last ones."""
    arguments = [*node.args.args, *node.args.kwonlyargs]
    plain = len(node.args.args) - len(node.args.defaults)
    defaults = [None] * plain + [*node.args.defaults, *node.args.kw_defaults]
    own = [
        ast.unparse(argument) + (f" = {ast.unparse(default)}" if default else "")
        for argument, default in zip(arguments, defaults)
    ]
    return [*own, *_options()] if _takes_options(node) else own


def _takes_options(node: ast.FunctionDef | ast.ClassDef) -> bool:
    return request.OPTIONS in (ast.get_docstring(node) or "")


def _options() -> list[str]:
    table = request.all_options()
    return [f"{name}: {kind} = {default!r}" for name, (default, _, kind) in table.items()]


def _arguments(node: ast.FunctionDef) -> str:
    text = ast.unparse(node.args)
    return re.sub(r"^self(, )?", "", text)


def _class(public: str, node: ast.ClassDef) -> str:
    parts = [f"### {public}", _text(node)]
    fields = [
        f for f in node.body if isinstance(f, ast.AnnAssign) and isinstance(f.target, ast.Name)
    ]
    if fields:
        names = [f"- `{f.target.id}`: `{ast.unparse(f.annotation)}`" for f in fields]
        parts.append("\n".join(names))
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and _is_public(item):
            parts.append(_member(item))
    return "\n\n".join(part for part in parts if part)


def _is_public(item: ast.FunctionDef) -> bool:
    return not item.name.startswith("_") and ast.get_docstring(item) is not None


def _member(item: ast.FunctionDef) -> str:
    decorators = {ast.unparse(decorator) for decorator in item.decorator_list}
    if "property" in decorators:
        kind = f": {ast.unparse(item.returns)}" if item.returns else ""
        return f"#### `.{item.name}{kind}`\n\n{_text(item)}"
    returns = f" -> {ast.unparse(item.returns)}" if item.returns else ""
    return f"#### `.{item.name}({_arguments(item)}){returns}`\n\n{_text(item)}"


def _text(node: ast.ClassDef | ast.FunctionDef) -> str:
    """Return a docstring as Markdown: sections become bold heads, their entries list items."""
    text = inspect.cleandoc(ast.get_docstring(node) or "").replace(
        request.OPTIONS, request.entries(request.all_options())
    )
    lines = text.replace("``", "`").splitlines()
    result: list[str] = []
    section = ""
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if UNDERLINE.match(line):
            continue
        if UNDERLINE.match(following):
            section = line
            result.append(f"**{line}**\n")
        elif section in ("Parameters", "Raises") and NAMES.match(line):
            result.append(f"- `{line}`")
        elif section in ("Parameters", "Raises"):
            result.append(f"  {line.strip()}" if line else "")
        else:
            result.append(line)
    return "\n".join(result).strip()
