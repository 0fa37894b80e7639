"""The guide docs/testing-python.md: each block of code with a file name is written into a project, and its tests pass."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from .conftest import HERE, OPERATORS

GUIDE = HERE.parents[1] / "docs" / "testing-python.md"


def test_the_guide(inner: pytest.Pytester) -> None:
    blocks = re.findall(r"^```\w+ (\S+)\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert [name for name, _ in blocks] == ["pytest.ini", "test_pages.py", "test_faults.py", "test_explore.py"]
    for name, text in blocks:
        text = text.replace("[pytest]\n", "[pytest]\naddopts = -p homeostat_testkit.plugin\npythonpath = .\n")
        (inner.path / name).write_text(text.replace('budget="2m"', 'budget="1s"'))
    shutil.copy(OPERATORS / "crd.yaml", inner.path)
    for name in ("pages.py", "rbac.yaml"):
        shutil.copy(OPERATORS / "correct" / name, inner.path)
    (inner.path / "scenario.yaml").write_text(
        "steps:\n- name: create\n  apply: {apiVersion: testkit.homeostat.dev/v1, kind: Page, metadata: {name: home}, "
        "spec: {text: hello}}\n  wait: {condition: Ready}\n"
    )
    result = inner.runpytest_subprocess()
    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(["*7 passed, * plans passed*"])


def test_the_wheel(tmp_path: Path, inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel is installed without a network, and pytest finds the plugin by itself."""
    source = tmp_path / "source"
    shutil.copytree(HERE, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__", "tests"))
    python = "/usr/bin/python3"
    assert inner.run(python, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, source).ret == 0
    wheel = next(tmp_path.glob("*.whl"))
    assert wheel.name.endswith("-py3-none-any.whl")
    assert inner.run(python, "-m", "venv", "--system-site-packages", tmp_path / "venv").ret == 0
    python = str(tmp_path / "venv" / "bin" / "python")
    assert inner.run(python, "-m", "pip", "install", "-q", "--no-index", wheel).ret == 0
    inner.makepyfile(
        "def test_it(namespace): assert namespace.get({'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {'name': 'x'}}) is None"
    )
    monkeypatch.delenv("PYTHONPATH")
    result = inner.run(python, "-m", "pytest")
    result.stdout.fnmatch_lines(["plugins:*homeostat-testkit*", "*1 passed*"])
