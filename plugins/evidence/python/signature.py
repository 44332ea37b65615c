"""Ed25519 signatures of the index, by the package ``cryptography``."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def sign(data: bytes, key: Path) -> bytes:
    """Return the signature of bytes, as hexadecimal text.

    Raises ValueError for a key of another kind, ImportError without the package.
    """
    return _read(key, "private", None).sign(data).hex().encode() + b"\n"


def is_signed(data: bytes, signature: bytes, key: Path) -> bool:
    """Return whether the private key of a public key made this signature."""
    from cryptography.exceptions import InvalidSignature

    public = _read(key, "public")
    try:
        public.verify(bytes.fromhex(signature.decode("ascii", "replace")), data)
    except (InvalidSignature, ValueError):
        return False
    return True


def _read(path: Path, kind: str, *arguments: Any) -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError as problem:
        raise ImportError(
            "signatures need the package cryptography; install it: pip install 'tvmrt[evidence]'"
        ) from problem
    data, other = path.read_bytes(), "public" if kind == "private" else "private"
    if f"{other.upper()} KEY-".encode() in data:
        raise ValueError(f"{path} is a {other} key; name the {kind} key of the pair")
    try:
        key = getattr(serialization, f"load_pem_{kind}_key")(data, *arguments)
    except (ValueError, TypeError) as problem:
        raise ValueError(f"{path} is not an unencrypted key in PEM form: {problem}") from problem
    if "ed25519" not in type(key).__module__.lower() + type(key).__name__.lower():
        raise ValueError(f"{path} is not an Ed25519 key; make one: openssl genpkey -algorithm "
                         "ed25519 -out key.pem")  # fmt: skip
    return key
