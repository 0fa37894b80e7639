"""Kubernetes operators as Python functions, on the engine of Homeostat.

A function gets a :class:`Pass` with the observed state, and records the desired state in it. The engine does the rest: it
watches, applies, corrects drift, deletes children, retries, and writes the status.
"""

from ._dry import Plan, check_pure, dry
from ._json import Object, digest, get, new, parse_time, timestamp
from ._pass import Child, Invalid, Pass, Wait
from ._serve import Function, run

__all__ = [
    "Child",
    "Function",
    "Invalid",
    "Object",
    "Pass",
    "Plan",
    "Wait",
    "check_pure",
    "digest",
    "dry",
    "get",
    "new",
    "parse_time",
    "run",
    "timestamp",
]
