"""Packages that an installation may leave out, and the sentence for one that is missing.

``pip install tvmrt`` brings what running a compiled network takes; the extras are named in
``pyproject.toml``.
"""

from __future__ import annotations

# Module to what needs it and the extra that brings it.
EXTRAS = {
    "click": ("the command line", "compile"),
    "rich": ("the command line", "compile"),
    "elftools": ("reading a library's file", "cli"),
    "onnx": ("the compiler", "compile"),
    "jinja2": ("a page, picture or package", "compile"),
    "PIL": ("an input that is a picture", "images"),
    "onnxruntime": ("the comparison with onnxruntime", "verify"),
    "ai_edge_litert": ("the comparison with LiteRT", "tflite"),
    "skl2onnx": ("a model of scikit-learn", "sklearn"),
}
COMMAND = ("click", "rich")


def sentence(error: ImportError) -> str | None:
    """What to install for a module that an import did not find; None for one of somebody else's."""
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        return None
    what, extra = EXTRAS[module]
    less = ", or 'tvmrt[cli]' to run libraries alone" if module in COMMAND else ""
    return f"{what} needs the package {module}: pip install 'tvmrt[{extra}]'{less}"


def told(error: ImportError) -> ImportError:
    """The error to raise in place of one: with the sentence where there is one, else itself."""
    text = sentence(error)
    return error if text is None else ImportError(text, name=error.name)
