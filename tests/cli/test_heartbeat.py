"""Does it run? A terminal shows what a command is at when nothing was written for a while."""

from __future__ import annotations

import io
import os
import pty
import sys
from pathlib import Path

import pytest

from support.command_line import run_command
from systolic.cli.heartbeat import PATIENCE_SECONDS, Heartbeat, ProgressBar

FIG3 = Path(__file__).resolve().parents[2] / "configs" / "runs" / "transpose_fig3.toml"


class Scene:
    """A heartbeat with a clock of ours, and what its bars show; "|" is a bar taken away."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.shown = 0.0, list[str]()
        scene = self

        class Bar:
            task_ids = (0,)

            def update(self, task: int, *, completed: int, total: int, description: str) -> None:
                scene.shown.append(f"{description} {completed}/{total}")

            def remove_task(self, task: int) -> None:
                pass

            def add_task(self, description: str, total: int | None) -> None:
                scene.shown.append(description)

            def stop(self) -> None:
                scene.shown.append("|")

        monkeypatch.setattr("systolic.cli.heartbeat._start_bar", lambda stream: Bar())
        monkeypatch.setattr(Heartbeat, "_watch", lambda heartbeat: None)
        self.heartbeat = Heartbeat(lambda: self.now)
        monkeypatch.setattr("systolic.cli.heartbeat.HEARTBEAT", self.heartbeat)

    def begin(self) -> None:
        self.heartbeat.begin("systolic run", io.StringIO())

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.heartbeat.look()


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


def test_after_a_while_it_says_what_a_run_is_at(scene: Scene) -> None:
    scene.begin()
    with ProgressBar("x") as progress:
        progress.at("compiling")
        scene.wait(PATIENCE_SECONDS / 2)
        assert scene.shown == []
        scene.wait(PATIENCE_SECONDS / 2)
        progress(1, 9)
        progress.at("comparing")
    scene.heartbeat.end()
    scene.wait(9)
    assert scene.shown == ["x, compiling", "x, compiling 1/9", "x, comparing", "x", "|"]


def test_what_is_before_a_run_and_behind_it_is_not_silent_either(scene: Scene) -> None:
    scene.begin()
    scene.wait(PATIENCE_SECONDS)
    with ProgressBar("x", "reading"):
        pass
    scene.heartbeat.stage("drawing")
    assert scene.shown == ["systolic run", "x, reading", "x", "x, drawing"]


def test_what_is_written_takes_it_away_for_a_while(scene: Scene) -> None:
    scene.begin()
    scene.wait(PATIENCE_SECONDS)
    scene.heartbeat.before_writing("a table\n")
    scene.wait(PATIENCE_SECONDS / 2)
    assert scene.shown == ["systolic run", "|"]
    scene.wait(PATIENCE_SECONDS / 2)
    assert scene.shown == ["systolic run", "|", "systolic run"]


def test_it_is_not_drawn_into_a_line(scene: Scene) -> None:
    scene.begin()
    scene.heartbeat.before_writing("half a line")
    scene.wait(9)
    assert scene.shown == []


def test_it_is_not_drawn_where_no_terminal_is(scene: Scene) -> None:
    with ProgressBar("x"):
        scene.wait(9)
    assert scene.shown == []


def test_each_stage_of_a_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages: list[str] = []
    monkeypatch.setattr(Heartbeat, "at", lambda heartbeat, name, stage="": stages.append(stage))
    assert run_command("run", FIG3, "--out", tmp_path / "out")[0] == 0
    named = [stage for stage in stages if stage]
    assert named == ["reading", "compiling", "checking", "simulating", "comparing", "writing",
                     "drawing"]  # fmt: skip


def test_a_process_on_a_terminal_shows_it_from_its_start_on(tmp_path: Path) -> None:
    """The bar is there while modules are imported, and gone when the table is written."""
    code = (
        "import systolic.cli.heartbeat as h; h.PATIENCE_SECONDS = 0.0; "
        "from systolic.cli.main import main; main()"
    )
    words = ["run", str(FIG3), "--out", str(tmp_path / "out")]
    child, terminal = pty.fork()
    if not child:
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, [sys.executable, "-c", code, *words])
    parts = []
    while True:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:  # the child has closed its end
            break
        if not part:
            break
        parts.append(part)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(terminal)
    text = b"".join(parts).decode()
    assert status == 0
    assert text.index("systolic run") < text.index("result equals numpy: yes")
