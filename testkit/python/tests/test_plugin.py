"""What pytest prints: failures, rules, explorations, options and workers."""

from __future__ import annotations

import pytest

from .conftest import OPERATORS


@pytest.fixture
def project(inner: pytest.Pytester) -> pytest.Pytester:
    """A project with the correct operator."""
    inner.makeini(
        f"""
        [pytest]
        addopts = -p homeostat_testkit.plugin
        testkit_crds = {OPERATORS}/crd.yaml
        testkit_rbac = {OPERATORS}/correct/rbac.yaml
        testkit_operator = python3 {OPERATORS}/correct/pages.py
        """
    )
    inner.makeconftest(
        """
        PAGE = {"apiVersion": "testkit.homeostat.dev/v1", "kind": "Page", "metadata": {"name": "home"},
                "spec": {"text": "hello", "port": 80}}
        """
    )
    return inner


def test_a_failure_has_a_timeline(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from conftest import PAGE
        from homeostat_testkit import ready

        def test_it(namespace, operator):
            operator.start()
            namespace.eventually(namespace.apply(PAGE), ready())
            assert False, "as a test"
        """
    )
    result = project.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*as a test*",
            "*- testkit -*",
            "what happened",
            "*create configmaps*home*",
            "To run this test alone:",
            "*::test_it*",
        ]
    )


def test_a_failure_is_shown_at_the_line_of_the_test(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        def test_it(namespace):
            namespace.apply({"apiVersion": "v1", "kind": "Nothing", "metadata": {"name": "a"}})
        """
    )
    result = project.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([">*namespace.apply(*", "E*no matches for kind*"])
    result.stdout.no_fnmatch_line("*homeostat_testkit/_*.py*")


def test_a_violated_rule_fails_a_test(project: pytest.Pytester) -> None:
    project.makefile(
        ".py",
        reads_secrets="""
        from kubernetes import client, config

        config.load_kube_config()
        try:
            client.CoreV1Api().list_namespaced_secret("kube-system")
        except client.ApiException:
            pass
        import time

        time.sleep(100)
        """,
    )
    project.makepyfile(
        """
        import pytest, sys

        def test_it(namespace):
            namespace.operator(sys.executable, "reads_secrets.py").start()

        @pytest.mark.testkit(without=["forbidden"], reason="it shows the mark")
        def test_without(namespace):
            namespace.operator(sys.executable, "reads_secrets.py").start()
        """
    )
    result = project.runpytest_subprocess()
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*forbidden: *secrets*kube-system*", "*pytest.mark.testkit(without=*"])


def test_an_exploration_reports_each_plan(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    test = project.makepyfile(
        f"""
        def test_correct(explore):
            explore("{OPERATORS}/correct/scenario.yaml", faults=["watch-closed"])
        """
    )
    reports = project.mkdir("elsewhere") / "my reports"
    monkeypatch.chdir(reports.parent)
    result = project.runpytest_subprocess("-v", test, "--testkit-report=my reports")
    assert result.ret == 0, result.stdout.str()
    result.stdout.fnmatch_lines(["*watch-closed*PASSED*", "*1 passed, * plans passed*"])
    assert len(list(reports.glob("*.html"))) == 1


def test_an_exploration_fails(project: pytest.Pytester) -> None:
    project.makefile(
        ".yaml",
        scenario=f"""
        steps:
        - {{name: create, apply: {OPERATORS}/sample.yaml, wait: {{condition: Ready}}}}
        - name: edit
          patch: {{kind: Page, name: example, merge: {{spec: {{text: changed}}}}}}
          wait: {{kind: ConfigMap, name: example, field: 'data.index\\.html', value: changed, timeout: 1s}}
        """,
    )
    project.makepyfile(
        f"""
        import sys, pytest

        @pytest.fixture(scope="session")
        def operator_command():
            return [sys.executable, "{OPERATORS}/create-only/create_only.py"]

        def test_broken(explore):
            explore("scenario.yaml", "--stop-at-first")
        """
    )
    result = project.runpytest_subprocess()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*plans failed: none/1*", "*index.html*"])


def test_workers_share_a_control_plane(project: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    project.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", range(6))
        def test_it(namespace, number, testkit_server):
            assert namespace.name
        """
    )
    result = project.runpytest_subprocess("-n", "2", "-p", "xdist")
    result.assert_outcomes(passed=6)


# Each test function and what pytest says about it.
@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("def test_it(operator): pass", "set testkit_operator in the ini file"),
        ("import pytest\n@pytest.mark.testkit(x=1)\ndef test_it(namespace): pass", "pytest.mark.testkit has no argument x"),
        ("def test_it(explore): explore('nothing.yaml')", "nothing.yaml"),
        ("def test_it(namespace): namespace.operator('no-such-program').start()", "no-such-program"),
    ],
)
def test_mistakes(inner: pytest.Pytester, test: str, message: str) -> None:
    inner.makeini("[pytest]\naddopts = -p homeostat_testkit.plugin\n")
    if "explore" in test:
        inner.makeini("[pytest]\naddopts = -p homeostat_testkit.plugin\ntestkit_operator = python3 x.py\n")
    inner.makepyfile(test)
    result = inner.runpytest_subprocess()
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"*{message}*"])
