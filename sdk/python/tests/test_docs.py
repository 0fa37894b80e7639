"""The guide docs/python-operators.md: its files make a project whose tests pass, and it has each field of the protocol."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import homeostat as h
import pytest

HERE = Path(__file__).resolve().parents[1]
GUIDE = (HERE.parents[1] / "docs" / "python-operators.md").read_text()
GO = HERE.parent / "function"


def test_the_project(tmp_path: Path) -> None:
    pytest.importorskip("homeostat_testkit")
    if not shutil.which("homeostat-engine"):
        pytest.skip("the program homeostat-engine is not in PATH: run make test/python")
    blocks = re.findall(r"^```\w+ (\S+)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    names = {name for name, _ in blocks}
    assert names == {
        *("operator.yaml", "crd.yaml", "rbac.yaml", "scenario.yaml", "pytest.ini"),
        *("reconcile.py", "test_reconcile.py", "test_cluster.py"),
    }
    for name, text in blocks:
        text = text.replace("[pytest]\n", "[pytest]\naddopts = -p homeostat_testkit.plugin\npythonpath = .\n")
        (tmp_path / name).write_text(text.replace('budget="2m"', 'budget="1s"'))
    done = subprocess.run([sys.executable, "-m", "pytest"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert re.search(r"\b5 passed, \d+ plans passed", done.stdout), done.stdout + done.stderr


def test_the_operator_of_kopf_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (HERE.parents[1] / "docs" / "from-kopf.md").read_text()
    (module,) = re.findall(r"^```python database.py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "database.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    database = importlib.import_module("database")
    spec: h.Object = {"engine": "postgresql", "version": "17", "replicas": 2, "backupEnabled": True}
    orders: h.Object = {
        "apiVersion": "techoral.com/v1",
        "kind": "Database",
        "metadata": {"name": "orders", "namespace": "shop"},
        "spec": spec,
    }
    plan = h.dry(database.reconcile, orders)
    assert [c["kind"] for c in plan.children] == ["StatefulSet", "Service", "CronJob"]
    assert plan.child("StatefulSet", "orders-db")["spec"]["replicas"] == 2
    assert plan.conditions["Available"]["reason"] == "Provisioning"
    live = {**plan.child("StatefulSet", "orders-db"), "status": {"readyReplicas": 2}}
    disabled = {**orders, "spec": {**spec, "backupEnabled": False}}
    ready = h.dry(database.reconcile, disabled, live, plan.child("CronJob", "orders-backup"))
    assert ready.status == {"readyReplicas": 2, "endpoint": "orders-db.shop.svc.cluster.local:5432"}
    assert ready.conditions["Available"]["status"] == "True" and "delete CronJob orders-backup" in str(ready)
    invalid = h.dry(database.reconcile, {**orders, "spec": {**spec, "engine": "oracle"}}).invalid
    assert invalid and invalid["reason"] == "UnknownEngine"
    waiting: h.Object = {**orders, "spec": {**spec, "passwordFrom": "secret"}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "secret", "namespace": "shop"}}
    cases: list[tuple[list[h.Object], str]] = [([], "ReferenceNotFound"), ([secret], "PasswordMissing")]
    for references, reason in cases:
        wait = h.dry(database.reconcile, waiting, references=references).wait
        assert wait and wait["reason"] == reason
    deleted = {**orders, "metadata": {**orders["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert [c["kind"] for c in h.dry(database.finalize, deleted).children] == ["Job"]


def test_the_fields_of_the_protocol() -> None:
    fields = set(re.findall(r'`json:"(\w+)', (GO / "protocol.go").read_text()))
    table = GUIDE[GUIDE.index("## The protocol") :]
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`(.*?)`", table))))
    assert len(fields) > 40 and fields - named - {"reason", "message", "status"} == set()


def test_the_reasons() -> None:
    reasons = set(re.findall(r'^\tReason\w+ = "(\w+)"', (GO / "reconcile.go").read_text(), re.MULTILINE))
    assert len(reasons) >= 7 and reasons == set(re.findall(r"^\| `([A-Z]\w+)` \|", GUIDE, re.MULTILINE))


def test_the_options_and_the_methods() -> None:
    options = [name for name in inspect.signature(h.Pass.apply).parameters if name not in ("self", "obj")]
    methods = [f"p.{name}" for name in vars(h.Pass) if not name.startswith("_") and name != "answer"]
    for name in options:
        assert f"`{name}`" in GUIDE
    for name in methods:
        assert re.search(rf"`[^`]*{re.escape(name)}\b", GUIDE)


def test_the_wheel(tmp_path: Path) -> None:
    """The wheel has the package and its types, and is installed without a network."""
    source = tmp_path / "source"
    shutil.copytree(HERE, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__", "tests", "examples"))
    python = "/usr/bin/python3"
    env = {**os.environ, "PYTHONPATH": ""}

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(python, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(source))
    wheel = next(tmp_path.glob("*.whl"))
    assert wheel.name.endswith("-py3-none-any.whl")
    run(python, "-m", "venv", "--system-site-packages", str(tmp_path / "venv"))
    installed = str(tmp_path / "venv" / "bin" / "python")
    run(installed, "-m", "pip", "install", "-q", "--no-index", str(wheel))
    found = Path(run(installed, "-c", "import homeostat; print(homeostat.__file__)").strip())
    assert str(found).startswith(str(tmp_path)) and (found.parent / "py.typed").exists()
