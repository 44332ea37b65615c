"""Bill of materials, provenance and the tool's confidence sheet."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

BOM, STATEMENT = "sbom.json", "provenance.json"
BUILD_TYPE = "urn:tvmrt:evidence:1"


def files(
    manifest: Mapping[str, Any], hashes: Mapping[str, str], tensors: int, vectors: int
) -> Iterator[tuple[str, str]]:
    """Yield the documents about an artefact: of its manifest, the SHA-256 of the network and the C
    files by path, and how many tensors and vectors the folder compares."""
    yield BOM, json_text(_bill(manifest, hashes))
    yield STATEMENT, json_text(_statement(manifest, hashes))
    values = {
        "tool": manifest["tool"], "target": manifest["target"], "name": manifest["module_name"],
        "tensors": tensors, "vectors": vectors,
        "options": ", ".join(f"{k}={v}" for k, v in manifest["options"].items()),
    }  # fmt: skip
    template = Path(__file__).with_name("tool-confidence.md").read_text(encoding="utf-8")
    yield "tool-confidence.md", template.format(**values)


def _bill(manifest: Mapping[str, Any], hashes: Mapping[str, str]) -> dict[str, Any]:
    """Return the bill of materials in CycloneDX 1.5."""
    tool, version = manifest["tool"].split(" ", 1)
    code = {name: digest for name, digest in hashes.items() if name.startswith("code/")}
    identity = json.dumps(hashes, sort_keys=True)
    options = [
        {"name": f"tvmrt:option:{name}", "value": json.dumps(value)}
        for name, value in sorted(manifest["options"].items())
    ]
    main = {
        "type": "library", "bom-ref": "artefact", "name": manifest["module_name"],
        "version": manifest["sha256"]["network"][:16],
        "properties": [{"name": "tvmrt:target", "value": manifest["target"]}, *options],
        "licenses": [{"license": {"name": manifest["licences"]["code"] or "unknown"}}],
    }  # fmt: skip
    components = [
        {
            "type": "machine-learning-model" if name not in code else "file", "bom-ref": name,
            "name": name, "hashes": [{"alg": "SHA-256", "content": digest}],
        }
        for name, digest in sorted(hashes.items())
    ]  # fmt: skip
    compiler = {"type": "application", "name": tool, "version": version}
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, identity)}",
        "metadata": {"component": main, "tools": {"components": [compiler]}},
        "components": components,
        "dependencies": [{"ref": "artefact", "dependsOn": sorted(hashes)}],
    }  # fmt: skip


def _statement(manifest: Mapping[str, Any], hashes: Mapping[str, str]) -> dict[str, Any]:
    """Return an in-toto statement with the provenance of SLSA 1.0."""
    subjects, network = (
        [{"name": name, "digest": {"sha256": digest}}
         for name, digest in sorted(hashes.items()) if name.startswith("code/") == is_code]
        for is_code in (True, False)
    )  # fmt: skip
    definition = {
        "buildType": BUILD_TYPE,
        "externalParameters": {"target": manifest["target"], "options": manifest["options"]},
        "resolvedDependencies": network,
    }
    return {
        "_type": "https://in-toto.io/Statement/v1", "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": definition, "runDetails": {"builder": {"id": manifest["tool"]}},
        },
    }  # fmt: skip


def json_text(data: Any) -> str:
    """Return JSON that is equal on all machines."""
    return json.dumps(data, indent=1, sort_keys=True) + "\n"
