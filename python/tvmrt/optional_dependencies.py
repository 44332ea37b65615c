"""Optional dependencies, and the error text if one is missing.

``pip install tvmrt`` installs only what is needed to run a compiled network; ``pyproject.toml``
defines the extras.
"""

from __future__ import annotations

# Module: the feature that needs it, and its extra.
EXTRAS = {
    "click": ("the command line", "compile"),
    "rich": ("the command line", "compile"),
    "elftools": ("reading a library's file", "cli"),
    "onnx": ("the compiler", "compile"),
    "jinja2": ("a page, picture or package", "compile"),
    "flatbuffers": ("a .tflite file", "compile"),
    "onnxruntime": ("quantising or comparing with onnxruntime", "verify"),
    "ai_edge_litert": ("the comparison with LiteRT", "tflite"),
    "skl2onnx": ("a model of scikit-learn", "sklearn"),
}
COMMAND = ("click", "rich")


def install_advice(error: ImportError) -> str | None:
    """Return which package to install for a failed import; None for unknown modules."""
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        return None
    feature, extra = EXTRAS[module]
    alternative = ", or 'tvmrt[cli]' to run libraries alone" if module in COMMAND else ""
    return f"{feature} needs the package {module}: pip install 'tvmrt[{extra}]'{alternative}"


def with_install_advice(error: ImportError) -> ImportError:
    """Return an ImportError with installation advice, or the given error if there is none."""
    text = install_advice(error)
    return error if text is None else ImportError(text, name=error.name)
