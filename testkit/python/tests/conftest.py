"""The tests of the plugin run pytest in pytest."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Callable

import pytest
from homeostat_testkit import Namespace, Operator

pytest_plugins = ["pytester"]

HERE = Path(__file__).resolve().parents[1]
HOME = Path.home()
OPERATORS = HERE.parent / "internal" / "explore" / "testdata" / "python"


@pytest.fixture
def broken(namespace: Namespace) -> Callable[[str], Operator]:
    """Starts an operator with a known bug, by the name of its file."""

    def start(name: str) -> Operator:
        return namespace.operator(sys.executable, str(OPERATORS / name.replace("_", "-") / f"{name}.py")).start()

    return start


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder for an inner pytest, which imports the package, and uses the cache of the user: pytester has another home."""
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.setenv("HOME", str(HOME))
    return pytester
