"""The options of the evidence plug-in: their rows of the option table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tvmrt.option_syntax import option
from tvmrt.plugin import Option, resolve

WRITER = "tvmrt.plugins.evidence.folder:write_evidence"  # read by compilations with the option


def _refused(request: Any) -> str | None:
    if request.evidence is None:
        lone = request.evidence_inputs is not None
        return f"{option('evidence_inputs')} is for {option('evidence')}; add it" if lone else None
    parent = Path(request.evidence).absolute().parent
    is_built = request.runtime == "crt" and request.interface_api == "c" and request.unpacked_api
    rules = (
        (not is_built, f"needs {option('runtime', 'crt')} with {option('executor', 'aot')}, "
                       f"{option('interface_api', 'c')} and {option('unpacked_api', True)}"),
        (request.params != "flash", f"traces the weights; choose {option('params', 'flash')}"),
        (request.devices, "does not read the code of devices; choose no device"),
        (request.workspace_io, f"passes inputs of its own; omit {option('workspace_io')}, which "
                               "places them in the workspace"),
        (not parent.is_dir(), f"is for a folder in {parent}, which does not exist; create it"),
    )  # fmt: skip
    return next((f"{option('evidence')} {text}" for wrong, text in rules if wrong), None)


def _report(*parts: Any) -> None:
    resolve(WRITER)(*parts)


EVIDENCE = Option(
    "Firmware: also write this folder, with which others check the C code: vectors and a program "
    "that replays them, a matrix from node to line, loop bounds, bill of materials. 'tvmrt verify "
    "DIR' checks it.",
    group="Boards",
    kind="path",
    type="str | os.PathLike[str] | None",
    form="DIR",
    report=_report,
    refused=_refused,
    recorded=False,
)
INPUTS = Option(
    "With --evidence: inputs by name; they are vectors, and their ranges are the declared ranges "
    "of the inputs. Default: all values of 8 and 16 bits, -1 to 1 for floats, 0 to 1 for others.",
    python="With `evidence`: arrays by input name; they are vectors, and their ranges are the "
    "declared ranges of the inputs. Default: all values of 8 and 16 bits, -1 to 1 for floats, 0 "
    "to 1 for others.",
    group="Boards",
    kind="path",
    type="Mapping[str, Any] | str | os.PathLike[str] | None",
    form="IN.npz",
    recorded=False,
)
KEY = Option(
    "With --evidence: Ed25519 private key in PEM form that signs the folder. With 'tvmrt verify "
    "DIR': the public key that must have signed it.",
    group="Boards",
    kind="path",
    type="str | os.PathLike[str] | None",
    form="KEY.pem",
    commands=("verify",),
    recorded=False,
)
