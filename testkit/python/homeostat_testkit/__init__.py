"""Tests of Kubernetes operators in any language, with a real API server.

The pytest plugin has the fixtures ``namespace``, ``operator`` and ``explore``. Without pytest, use :class:`Server`.
"""

from ._checks import Check, Condition, Object, condition, exists, gone, ready, ref
from ._client import Failure, Server, TestkitError
from ._namespace import Fault, Namespace, Operator, Request

__all__ = [
    "Check",
    "Condition",
    "Failure",
    "Fault",
    "Namespace",
    "Object",
    "Operator",
    "Request",
    "Server",
    "TestkitError",
    "condition",
    "exists",
    "gone",
    "ready",
    "ref",
]
