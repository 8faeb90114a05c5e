"""The pytest plugin: the fixture `systolic_run`, and the option --systolic-update.

pytest loads this module at its start, in every project that has systolic installed. So nothing of
the package is imported here before a test asks for the fixture. What is compared and written is
computed by `systolic.run.pins`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import pytest

if TYPE_CHECKING:
    from systolic.config import Override
    from systolic.engine_kind import EngineKind
    from systolic.run.pins.works import PinnedWork
    from systolic.run.result import Result

UPDATE, PINS, WATCH = "--systolic-update", ".pins.toml", "systolic_pins_watch"
HOW_TO_PIN = f" ({UPDATE} pins them)"
Returned = TypeVar("Returned")
Replacements = Mapping[str, Any] | Sequence[str]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes counts in place of comparing them."""
    text = "write the cycle counts that assert_unchanged() finds to the files beside the tests"
    group = parser.getgroup("systolic", "cycle counts of systolic")
    group.addoption(UPDATE, action="store_true", default=False, help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to let two processes write one file of counts."""
    if config.getoption(UPDATE) and config.getoption("numprocesses", None):
        raise pytest.UsageError(f"{UPDATE} needs one process: add -n 0")
    config.pluginmanager.register(PinsWatch(config), WATCH)


@pytest.fixture
def systolic_run(request: pytest.FixtureRequest) -> SystolicRun:
    """Return a function that does a run for its times: `systolic_run("runs/a.toml")`."""
    watch = request.config.pluginmanager.get_plugin(WATCH)
    assert isinstance(watch, PinsWatch)
    update = request.config.getoption(UPDATE)
    return SystolicRun(request.path, update=update, used=watch.used)


class PinsWatch:
    """Tells at the end which pins no test has used, of files whose tests all ran and passed.

    used: the names of the pins that tests compared, by the file of pins. It says nothing where
    several processes share the tests, since each sees only its own.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.used: dict[Path, set[str]] = {}
        self._whole: set[Path] = set()
        self._partial: set[Path] = set()
        self._folders: set[Path] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note the files whose tests are to run, unless only some of them were asked for."""
        self._folders = {item.path.parent for item in session.items}
        if not any("::" in argument for argument in self.config.args):
            self._whole |= {item.path for item in session.items} - self._partial

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Note the files of tests that were left out."""
        self._partial.update(item.path for item in items)
        self._whole -= self._partial

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the file of a test that did not pass: it may not have come to its pins."""
        if not report.passed:
            self._whole.discard(self.config.rootpath / report.nodeid.split("::")[0])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say which pins are of no test."""
        if self.config.getoption("numprocesses", None) or hasattr(self.config, "workerinput"):
            return
        for line in self._unused():
            terminalreporter.write_line(f"systolic: {line}")

    def _unused(self) -> Iterator[str]:
        pins = sorted(file for folder in self._folders for file in folder.glob(f"*{PINS}"))
        for file in pins:
            test = file.with_name(file.name.removesuffix(PINS) + ".py")
            if not test.exists():
                yield f"{file}: pins of no test: there is no {test.name}"
            elif test in self._whole:
                unused = _pinned(file) - self.used.get(file, set())
                if unused:
                    yield f"{file}: pins of no test: {', '.join(sorted(unused))}"


def _pinned(file: Path) -> set[str]:
    from systolic.errors import SystolicError
    from systolic.run.pins.file import read_pins

    try:
        return set(read_pins(file))
    except SystolicError:  # a test that reads it says so
        return set()


@dataclass(frozen=True, slots=True)
class SystolicRun:
    """The fixture: a function that does a run for its times.

    test: the file of the test. update: counts are written in place of being compared. used: the
    names of the pins that tests used, by the file of pins.
    """

    test: Path
    update: bool
    used: dict[Path, set[str]]

    def __call__(
        self,
        path: str | Path,
        *,
        engine: EngineKind | None = None,
        chip: str | Path | None = None,
        set: Replacements = (),  # noqa: A002 - the name of the option of `systolic run`
    ) -> TestedRun:
        """Do a run for its times.

        Args:
            path: a run file (.toml), or a program (any other file), from the folder of the test.
            engine: "event" or "register" (default: the run file's, or "event").
            chip: the file of a chip, from the folder of the test, or the name of a shipped one.
            set: what replaces values of the run file, or of its chip: `{"chip.dma.queues": 1}`, or
                texts as `systolic run --set` takes them.

        A run that cannot be done fails the test with one line.

        """
        work = _or_failure(lambda: self._work(Path(path), engine, chip, set))
        return TestedRun(work, _or_failure(work.run), self)

    @property
    def pins(self) -> Path:
        """Return the file of counts of the tests in this file: test_a.pins.toml of test_a.py."""
        return self.test.with_suffix(PINS)

    def _work(
        self, path: Path, engine: EngineKind | None, chip: str | Path | None, settings: Replacements
    ) -> PinnedWork:
        from systolic.config.chip_file import find_chip
        from systolic.errors import SystolicError
        from systolic.run.pins.works import PinnedSystem, works_of

        folder = self.test.parent
        if engine not in (None, "event", "register"):
            raise SystolicError(f'engine: needs "event" or "register", found {engine!r}')
        found = works_of(
            folder / path,
            folder,
            overrides=_overrides(settings, folder),
            chip=None if chip is None else find_chip(str(chip), folder, "chip"),
            engine=engine,
        )
        first = next(found)
        if isinstance(first, PinnedSystem):
            raise SystolicError(f"{path}: is a system file; needed a run file or a program")
        if first.is_point:
            raise SystolicError(f"{path}: is a sweep; set sweep to [] to take the run it varies")
        return first


@dataclass(frozen=True, eq=False)
class TestedRun:
    """A run that was done for its times."""

    __test__ = False  # pytest collects classes whose names begin with Test

    work: PinnedWork
    result: Result
    fixture: SystolicRun

    @property
    def cycles(self) -> int:
        """Return the cycles of the run, in the array's clock."""
        return self.result.cycles

    @property
    def units(self) -> dict[str, dict[str, int]]:
        """Return where every cycle of every unit went: cycles by unit and label."""
        return {unit: dict(spent["labels"]) for unit, spent in self.summary["units"].items()}

    @property
    def operations(self) -> dict[str, int]:
        """Return the cycles of each operation of a graph; nothing of a program."""
        return {each["name"]: each["cycles"] for each in self.summary.get("operations", ())}

    @property
    def summary(self) -> dict[str, Any]:
        """Return what summary.json would hold."""
        return self.result.summary

    def assert_cycles(self, expected: int, *, tolerance: int = 0) -> None:
        """Fail the test if the run is longer or shorter than expected by more than `tolerance`."""
        __tracebackhide__ = True
        if abs(self.cycles - expected) > tolerance:
            apart = f"{self.cycles - expected:+}"
            _fail(f"{self.work.name}: {self.cycles} cycles, expected {expected} ({apart})")

    def assert_unchanged(self) -> None:
        """Fail the test if the file beside the test has other counts.

        The failure says what moved, and why if the chip is what changed. With --systolic-update the
        counts are written to the file, and reasons and tolerances stay.
        """
        __tracebackhide__ = True
        self.fixture.used.setdefault(self.fixture.pins, set()).add(self.work.name)
        _or_failure(self._update if self.fixture.update else self._compare)

    def _compare(self) -> None:
        __tracebackhide__ = True
        from systolic.run.pins.compare import judged
        from systolic.run.pins.file import read_pins

        known = read_pins(self.fixture.pins, may_be_new=True)
        finding = judged(self.work, known.get(self.work.name), self.result)
        if not finding.ok:
            _fail(f"{finding.text}{HOW_TO_PIN if finding.is_new else ''}")

    def _update(self) -> None:
        from systolic.run.pins.check import with_what_was_said
        from systolic.run.pins.file import read_pins, write_pins
        from systolic.run.pins.pin import pin_of

        known = read_pins(self.fixture.pins, may_be_new=True)
        found = {self.work.name: pin_of(self.result, self.work.reason, with_chip=True)}
        write_pins(self.fixture.pins, {**known, **with_what_was_said(found, known)})


def _overrides(settings: Replacements, folder: Path) -> list[Override]:
    """Return the overrides that settings mean; file names in them start from a folder."""
    from systolic.config import Override
    from systolic.config.dump import toml_text

    if isinstance(settings, str):
        settings = [settings]
    if isinstance(settings, Mapping):
        settings = [f"{key}={toml_text(value)}" for key, value in settings.items()]
    return [replace(Override.parse(text, "set"), folder=folder) for text in settings]


def _or_failure(function: Callable[[], Returned]) -> Returned:
    """Return what a function returns; an error of systolic fails the test with its one line."""
    __tracebackhide__ = True
    from systolic.errors import SystolicError

    try:
        return function()
    except SystolicError as error:
        line = str(error)
    return _fail(line)  # not while the error is handled: pytest would print both


def _fail(text: str) -> NoReturn:
    pytest.fail(text, pytrace=False)
