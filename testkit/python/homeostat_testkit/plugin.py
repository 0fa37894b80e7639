"""The pytest plugin.

Options of the ini file, or of the fixture ``testkit_options``: ``testkit_crds``, ``testkit_rbac``, ``testkit_service_account``,
``testkit_workloads`` and ``testkit_operator``.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from ._client import Server
from ._namespace import Namespace, Operator

_NAMESPACES = pytest.StashKey[list[Namespace]]()
_LOG = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    parser.addini("testkit_crds", "files or folders with CustomResourceDefinitions", type="paths", default=[])
    parser.addini("testkit_rbac", "files or folders with the operator's roles", type="paths", default=[])
    parser.addini("testkit_service_account", "the operator's ServiceAccount, if the roles are for several", default="")
    parser.addini("testkit_workloads", "run controllers and simulated nodes", type="bool", default=False)
    parser.addini("testkit_operator", "the operator's command, for the fixtures operator and explore", default="")
    group = parser.getgroup("testkit", "tests of operators")
    group.addoption(
        "--testkit-report",
        metavar="DIR",
        help="write an HTML report of each exploration into this folder: --testkit-report=DIR",
        default=None,
    )


def pytest_configure(config: pytest.Config) -> None:
    """Documents the marker."""
    config.addinivalue_line(
        "markers",
        "testkit(without=[...], reason=..., timeout=...): rules that the test's operators may violate and why, and the limit of "
        "each wait in seconds",
    )


@pytest.fixture(scope="session")
def testkit_options(pytestconfig: pytest.Config) -> dict[str, Any]:
    """The arguments of :class:`Server`. Override it to compute them."""
    return {
        "crds": pytestconfig.getini("testkit_crds"),
        "rbac": pytestconfig.getini("testkit_rbac"),
        "service_account": pytestconfig.getini("testkit_service_account"),
        "workloads": pytestconfig.getini("testkit_workloads"),
    }


@pytest.fixture(scope="session")
def operator_command(pytestconfig: pytest.Config) -> list[str]:
    """The operator's command. Override it to compute it. ``python3`` alone is this interpreter."""
    command = shlex.split(str(pytestconfig.getini("testkit_operator")))
    if not command:
        raise pytest.UsageError(
            "the fixtures operator and explore need the operator's command: set testkit_operator in the ini file, or define "
            "the fixture operator_command"
        )
    if command[0] in ("python", "python3"):
        command[0] = sys.executable
    return command


def _uncaptured(config: pytest.Config) -> contextlib.AbstractContextManager[None]:
    """Lets output reach the terminal."""
    capture = config.pluginmanager.getplugin("capturemanager")
    disabled: contextlib.AbstractContextManager[None] = (
        capture.global_and_fixture_disabled() if capture else contextlib.nullcontext()
    )
    return disabled


@pytest.fixture(scope="session")
def testkit_server(pytestconfig: pytest.Config, testkit_options: dict[str, Any]) -> Iterator[Server]:
    """The testkit program with its control plane. The first start may build it, and shows its progress."""
    with _uncaptured(pytestconfig):
        server = Server(**testkit_options)
    yield server
    server.close()


@pytest.fixture
def namespace(request: pytest.FixtureRequest, testkit_server: Server) -> Iterator[Namespace]:
    """A namespace of the test's own. After the test, the rules of testkit are checked, and it is deleted."""
    mark = request.node.get_closest_marker("testkit")
    options = dict(mark.kwargs) if mark else {}
    unknown = sorted(set(options) - {"without", "reason", "timeout"})
    if unknown:
        raise pytest.UsageError(f"pytest.mark.testkit has no argument {unknown[0]}: it has without, reason and timeout")
    node = cast(pytest.Item, request.node)
    ns = Namespace(testkit_server, node.name, replay=f"{Path(sys.executable).name} -m pytest '{node.nodeid}'", **options)
    opened: list[Namespace] = []
    node.stash.setdefault(_NAMESPACES, opened).append(ns)
    yield ns
    _close(node, failed=True)  # unless the test has run to its end


@pytest.fixture
def operator(namespace: Namespace, operator_command: list[str], pytestconfig: pytest.Config) -> Operator:
    """The operator of the option ``testkit_operator``. The test starts it."""
    return namespace.operator(*operator_command, folder=pytestconfig.rootpath)


def _close(node: pytest.Item, *, failed: bool) -> list[str]:
    failures: list[str] = []
    closed: list[Namespace] = []
    for ns in node.stash.get(_NAMESPACES, []):
        failures += ns.close(failed=failed)
        if ns.log:
            node.stash[_LOG] = node.stash.get(_LOG, "") + ns.log
    node.stash[_NAMESPACES] = closed
    return failures


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, None]:
    """Checks the rules at the end of the test, so that a violation is a failure of it."""
    outcome = yield
    failed = outcome.excinfo is not None
    failures = _close(pyfuncitem, failed=failed)
    if failures and not failed:
        pytest.fail("\n".join(failures), pytrace=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Adds what happened to the report of a failed test."""
    outcome = yield
    report = outcome.get_result()
    log = item.stash.get(_LOG, "")
    if report.failed and log:
        report.sections.append(("testkit", log))


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Counts the plans of explorations apart from tests."""
    plan = getattr(report, "testkit_plan", None)
    if plan is None:
        return None
    if report.failed:
        return "failed", "f", f"{plan} FAILED"
    if report.passed:
        return "plans passed", ",", f"{plan} PASSED"
    return "plans untried", "-", f"{plan} UNTRIED"


class Exploration:
    """The fixture ``explore``."""

    def __init__(self, node: pytest.Item, server: Server, command: Sequence[str], reports: Path | None) -> None:
        self._node = node
        self._server = server
        self._command = command
        self._reports = reports

    def __call__(self, scenario: str, *options: str, budget: str = "", faults: Sequence[str] = ()) -> None:
        """Runs the operator through a scenario many times, each time with another fault.

        ``scenario`` is a YAML file, and ``options`` are further options: see ``testkit explore --help``. ``budget`` is a
        duration such as ``2m``, after which no plan is started. Each plan is reported as a test of its own. It fails if a rule
        is violated.
        """
        args = [*self._server.options, "--scenario", str(Path(self._node.path).parent / scenario), *options]
        if budget:
            args += ["--budget", budget]
        for fault in faults:
            args += ["--fault", fault]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "report.json"
            args += ["--report", str(file)]
            if self._reports:
                self._reports.mkdir(parents=True, exist_ok=True)
                name = "".join(c if c.isalnum() or c in "-_." else "-" for c in self._node.nodeid)
                args += ["--report", str(self._reports / f"{name}.html")]
            done = subprocess.run(
                [self._server.program, "explore", *args, "--", *self._command],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=str(self._node.config.rootpath),
            )  # fmt: skip
            runs = json.loads(file.read_text())["runs"] if file.exists() else []
        if done.returncode not in (0, 1) or not runs:
            pytest.fail(done.stdout.strip(), pytrace=False)
        failed = [run for run in runs if run["outcome"] == "failed"]
        for run in runs:
            self._report(run)
        if failed:
            plans = ", ".join(run["name"] for run in failed[:5]) + (", ..." if len(failed) > 5 else "")
            pytest.fail(f"{len(failed)} of {len(runs)} plans failed: {plans}\n{done.stdout.strip()}", pytrace=False)

    def _report(self, run: dict[str, Any]) -> None:
        """Reports a plan as a test of its own."""
        passed = run["outcome"] == "passed"
        outcome: Any = {"passed": "passed", "failed": "failed"}.get(run["outcome"], "skipped")
        text = "\n".join(f"{v['oracle']}: {v['message']}" for v in run.get("violations", []))
        location: tuple[str, int | None, str] = self._node.location
        skip = (str(self._node.path), location[1] or 0, "Skipped: " + run.get("why", ""))
        report = pytest.TestReport(
            nodeid=self._node.nodeid,
            location=(location[0], location[1], f"{location[2]}[{run['name']}]"),
            keywords={},
            outcome=outcome,
            longrepr=None if passed else skip if outcome == "skipped" else f"{run.get('what', '')}\n{text}",
            when="call",
            duration=run.get("duration", 0) / 1e9,
            testkit_plan=run["name"],
        )
        with _uncaptured(self._node.config):
            self._node.ihook.pytest_runtest_logreport(report=report)


@pytest.fixture
def explore(
    request: pytest.FixtureRequest, testkit_server: Server, operator_command: list[str], pytestconfig: pytest.Config
) -> Exploration:
    """Tries every fault on the operator of the option ``testkit_operator``: see :class:`Exploration`."""
    reports = pytestconfig.getoption("--testkit-report")
    node = cast(pytest.Item, request.node)
    folder = pytestconfig.invocation_params.dir / str(reports) if reports else None
    return Exploration(node, testkit_server, operator_command, folder)
