"""Contributions of this plug-in."""

from tvmrt.plugin import Plugin

_STRINGS = "tvmrt.plugins.onnx_text.operators.strings"

PLUGIN = Plugin(
    name="onnx_text",
    summary="operators that create strings and read their text: parts, tokens, numbers, n-grams",
    operators={
        ("", "StringConcat"): _STRINGS,
        ("", "StringNormalizer"): _STRINGS,
        ("", "StringSplit"): _STRINGS,
        ("", "TfIdfVectorizer"): "tvmrt.plugins.onnx_text.operators.ngrams",
        ("com.microsoft", "Tokenizer"): _STRINGS,
    },
    hooks={"strings": "tvmrt.plugins.onnx_text.operators.text"},
    headers={"onnx_text": "tvmrt.plugins.onnx_text:HEADERS"},
)
