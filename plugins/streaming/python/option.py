"""The option ``stream``: its text and its row of the option table."""

from __future__ import annotations

from typing import Any, NamedTuple

from tvmrt.option_syntax import option
from tvmrt.plugin import Option, resolve

FORM = "AXIS[=HOP]"
DERIVE = "tvmrt.plugins.streaming.derive:derive_stream"  # read by compilations with the option


class StreamedInput(NamedTuple):
    """Input that a stream enters: its name ("" for the only input), axis, and elements per hop."""

    name: str
    axis: int
    hop: int | None


class StreamOption(NamedTuple):
    """Value of the option."""

    inputs: tuple[StreamedInput, ...]
    causal: bool


def parse(text: str | int) -> StreamOption:
    """Return the value of a text. Raise ValueError for a malformed one."""
    words = [word.strip() for word in str(text).split(",")]
    inputs = tuple(_parse_input(word, text) for word in words if word != "causal")
    if not inputs:
        raise _malformed(text)
    names = [each.name for each in inputs]
    for name in names:
        if names.count(name) > 1:
            what = f"the input {name!r}" if name else "the only input"
            given = option("stream", text)
            raise ValueError(f"{given} names {what} twice; give each input one axis")
    return StreamOption(inputs, "causal" in words)


def _parse_input(word: str, text: str | int) -> StreamedInput:
    place, equals, hop = word.partition("=")
    name, _, axis = place.rpartition(":")
    try:
        number = int(hop) if equals else None
        if number is not None and number < 1:
            raise _malformed(text)
        return StreamedInput(name, int(axis), number)
    except ValueError:
        raise _malformed(text) from None


def _malformed(text: object) -> ValueError:
    return ValueError(
        f"{option('stream', text)} is not {FORM}, such as 1, 2=8, x:1=4 for the input x, or "
        "1,causal"
    )


def _checked(text: Any) -> Any:
    """Return the text if it is well-formed."""
    parse(text)
    return text


def _refused(request: Any) -> str | None:
    parse(request.stream)
    return None


STREAM = Option(
    "Derive the network of one hop: the input is a window that moves along this axis, and each run "
    "takes the next HOP elements. AXIS,causal also moves padding to the start of the stream and "
    "keeps recurrent states.",
    python='"AXIS[=HOP]", also "INPUT:AXIS[=HOP],...,causal"',
    form=FORM,
    type="str | int | None",
    parse=_checked,
    graph=lambda graph, value: resolve(DERIVE)(graph, parse(value)),
    refused=lambda request: _refused(request) if request.stream is not None else None,
)
