"""Objects as JSON values, and times in them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

Object = dict[str, Any]
"""A Kubernetes object as plain data."""


def new(
    api_version: str, kind: str, name: str, *, namespace: str = "", labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None, **fields: Any,
) -> Object:  # fmt: skip
    """Returns an object with these fields at the top, such as spec or data."""
    metadata = {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations}
    metadata = {key: value for key, value in metadata.items() if value}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def get(value: Any, *path: str | int, default: Any = None) -> Any:
    """Returns a field of an object by the names and indexes on the way to it.

    The default stands for a field that is missing or None, and for each field of an object that does not exist:
    ``get(child.live, "status", "readyReplicas", default=0)``.
    """
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return default
    return default if value is None else value


def digest(value: Any) -> str:
    """Returns the first 16 digits of the SHA-256 hash of a text, or of another JSON value.

    As an annotation of a pod template, it replaces the pods after a change.
    """
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def clean(value: Any, path: str) -> Any:
    """Returns a copy of a JSON value without the keys whose value is None.

    It raises TypeError or ValueError for any other value. The path names the value in the error.
    """
    if isinstance(value, Mapping):
        result: dict[str, Any] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{path}: the key {key!r} is not a str")
            if item is not None:
                result[key] = clean(item, f"{path}.{key}")
        return result
    if isinstance(value, (list, tuple)):
        return [clean(item, f"{path}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, float)):
        if not math.isfinite(value) or (isinstance(value, int) and not -(2**63) <= value < 2**63):
            raise ValueError(f"{path}: {value} is no number in Kubernetes")
        return value
    hint = ": use homeostat.timestamp" if isinstance(value, datetime) else ""
    raise TypeError(f"{path}: {value!r} is no JSON value{hint}")


def parse_time(text: str) -> datetime:
    """Returns the time of a text such as metadata.creationTimestamp. Digits beyond microseconds are cut off."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    time = datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S")
    return time.replace(microsecond=int(fraction[:6].ljust(6, "0")), tzinfo=timezone.utc)


def timestamp(time: datetime) -> str:
    """Returns the text of a time in whole seconds, as in metadata.creationTimestamp. The time needs a time zone."""
    if time.tzinfo is None:
        raise ValueError(f"the time {time} has no time zone")
    return time.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
