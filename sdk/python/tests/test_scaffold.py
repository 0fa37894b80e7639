"""The project that `homeostat new --language python` writes passes its own tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(("scope", "budget"), [("Namespaced", "2m"), ("Cluster", "30s")])
def test_a_new_project(tmp_path: Path, scope: str, budget: str) -> None:
    project = tmp_path / "web-shop"
    command = ["go", "run", ".", "new", "web-shop", "--group", "shop.example.com", "--kind", "WebShop"]
    command += ["--language", "python", "--scope", scope, "--dir", str(project), "--homeostat", str(ROOT)]
    subprocess.run(command, cwd=ROOT / "sdk/cmd/homeostat", check=True)
    assert str(ROOT) in (project / "local.mk").read_text()
    test = project / "test_cluster.py"
    test.write_text(test.read_text().replace('budget="2m"', f'budget="{budget}"'))
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "homeostat_testkit.plugin"]
    done = subprocess.run(tests, cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "plans passed" in done.stdout
    subprocess.run(["make", "-s", "chart"], cwd=project, check=True)
    assert (project / "build" / "charts" / "web-shop-0.1.0.tgz").exists()
