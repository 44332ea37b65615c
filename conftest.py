"""Fixtures that all tests share: those of tests/ and of plug-ins."""

from __future__ import annotations

import contextlib
import locale
import os
import shutil
import subprocess
import time
from pathlib import Path

import costs
import everyday
import hypothesis
import left_out
import pytest
import tools

tools.watch()

# A machine that does other things as well may take any time for one example, or to draw it. The
# examples are the same each time: whoever changes something else is not who has to find why a new
# one fails. TVMRT_FUZZ_EXAMPLES, by which more damaged files are tried, draws new ones here, too.
hypothesis.settings.register_profile(
    "tvmrt",
    deadline=None,
    derandomize=os.environ.get("TVMRT_FUZZ_EXAMPLES") is None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("tvmrt")

try:
    import onnxruntime
except ImportError:  # tests that need it skip themselves
    onnxruntime = None

# On processors without VNNI onnxruntime's products of uint8 and int8 overflow in their pair sums,
# unless it is asked not to, which some networks that it runs otherwise do not survive.
EXACT_BYTES = "session.x64quantprecision"


def _exact_session(session: type) -> type:
    class Session(session):  # type: ignore[misc,valid-type]
        """One that counts bytes exactly, whatever options it is given."""

        def __init__(self, model, sess_options=None, *args, **options):
            chosen = sess_options or onnxruntime.SessionOptions()
            chosen.log_severity_level = max(chosen.log_severity_level, 3)
            chosen.add_session_config_entry(EXACT_BYTES, "1")
            try:
                super().__init__(model, chosen, *args, **options)
            except Exception:  # its exceptions share no base class
                chosen.add_session_config_entry(EXACT_BYTES, "0")
                super().__init__(model, chosen, *args, **options)

    return Session


if onnxruntime is not None:
    onnxruntime.InferenceSession = _exact_session(onnxruntime.InferenceSession)


# Compilers take most of the time of all tests. Where the subject is not what they make of a kernel,
# they are asked for less; operators, networks and files of others are compiled as users do.
QUICK = (
    "cli", "custom", "devices", "dims", "docs", "examples", "export", "frontend", "network",
    "runtime", "transform",
)  # fmt: skip


# Code for one processor takes half the time of code for all levels, which is the default: that is
# what examples and installed packages are tried with, and the pages that people begin with
# (docs/test_pages.py), besides the tests of levels.
DEFAULT_TARGET = ("examples", "levels", "platforms")

# An error of a pass names it; this takes most of the time of the passes.
os.environ["TVMRT_VERIFY_PASSES"] = "1"

COSTS = costs.Costs()
STARTED = pytest.StashKey[float]()
LONG_TESTS_END = "TVMRT_LONG_TESTS_END"


def pytest_ignore_collect(collection_path):
    """Leave out the tests of plug-ins that are installed and not used."""
    return True if everyday.is_left_out(collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark slow what the everyday tests leave out, before ``-m`` selects."""
    everyday.mark(items)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """Set the flags and the target by the test's folder, before its fixtures compile."""
    folder = item.path.parent
    ours = folder.parent.name == "python"
    quick = (folder.name in QUICK and ours) or "plugins" in folder.parts
    os.environ["TVMRT_CFLAGS"] = "-O1" if quick else ""
    os.environ["TVMRT_TARGET"] = "" if folder.name in DEFAULT_TARGET and ours else "native"
    item.stash[STARTED] = costs.now()
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Skip long tests after the time that the environment sets, in seconds since 1970."""
    end = os.environ.get(LONG_TESTS_END)
    if end and item.get_closest_marker("slow") and time.time() > float(end):
        pytest.skip("the time for long tests is over")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Add the processor time of the whole test to the report of its end."""
    report = yield
    if call.when == "teardown":
        seconds = costs.now() - item.stash[STARTED]
        report.user_properties.append((costs.PROPERTY, round(seconds, 3)))
    return report


def pytest_runtest_logreport(report):
    """Collect the times, in the process that prints the summary."""
    if report.when == "teardown":
        COSTS.add(report)


def pytest_sessionfinish(session):
    """Fail a run whose everyday tests take too long, if the environment asks for it."""
    asked = os.environ.get(costs.CHECKED) and not hasattr(session.config, "workerinput")
    if asked and COSTS.above_limits() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    """Print the processor time of the files, and one table of the tests that were left out."""
    if COSTS.of_tests:
        terminalreporter.section("processor time")
    for line in COSTS.table() + COSTS.above_limits():
        terminalreporter.write_line(line)
    terminalreporter.section("left out")
    skipped = terminalreporter.stats.get("skipped", [])
    for line in left_out.table(skipped, config.option.markexpr):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """The folder of real networks with golden outputs that the variable TVMRT_MODELS names."""
    folder = os.environ.get("TVMRT_MODELS")
    if not folder:
        pytest.skip("set TVMRT_MODELS to a folder of networks to run this test")
    path = Path(folder)
    if not path.is_dir():
        pytest.fail(f"TVMRT_MODELS names {folder}, which is no folder")
    return path


@pytest.fixture
def decimal_comma(tmp_path, monkeypatch):
    """Makes the process write 1,5 for 1.5 while it is entered, as programs may choose."""
    if not shutil.which("localedef"):
        pytest.skip("no localedef, which makes locales")
    made = tmp_path / "de_DE.UTF-8"
    command = ["localedef", "-i", "de_DE", "-f", "UTF-8", made]
    subprocess.run(command, capture_output=True, check=False)
    if not made.is_dir():
        pytest.skip("no sources of locales")
    monkeypatch.setenv("LOCPATH", str(tmp_path))

    @contextlib.contextmanager
    def entered():
        locale.setlocale(locale.LC_NUMERIC, "de_DE.UTF-8")
        try:
            assert locale.localeconv()["decimal_point"] == ","
            yield
        finally:
            locale.setlocale(locale.LC_NUMERIC, "C")

    return entered
