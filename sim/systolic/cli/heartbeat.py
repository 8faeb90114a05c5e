"""What a command is at, on a terminal, whenever it has written nothing for a while.

`main` starts the heartbeat of the process before anything is imported, and each write to the
terminal tells it. So no part of a command is silent for longer than `PATIENCE_SECONDS`, whether
that part says how far it is or not. Not here: the streams (`screen`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

PATIENCE_SECONDS = 1.0
BETWEEN_LOOKS_SECONDS = 0.1


class Heartbeat:
    """A bar that is there while nothing is written; `begin` lets a thread look after it.

    clock: gives the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._bar: Bar | None = None
        self._stream: TextIO | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._name = self._stage = self._note = ""
        self._done: tuple[int, int] | None = None
        self._written_at = clock()
        self._is_at_line_start = True

    def begin(self, name: str, stream: TextIO) -> None:
        """Watch over this process, whose command has a name; bars go to the stream, a terminal."""
        self._name, self._stream = name, stream
        threading.Thread(target=self._watch, daemon=True).start()

    def end(self) -> None:
        """Take the bar away for good."""
        self._over.set()
        self.before_writing("\n")

    def before_writing(self, text: str) -> None:
        """Take the bar away for a text that is about to be written to the terminal."""
        if not text:
            return
        with self._lock:
            self._written_at, self._is_at_line_start = self._clock(), text.endswith("\n")
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def at(self, name: str, stage: str = "") -> None:
        """Say what the command is at from now on."""
        self._name, self._stage, self._note, self._done = name, stage, "", None
        self._show()

    def stage(self, stage: str) -> None:
        """Say which stage of it begins."""
        self.at(self._name, stage)

    def so_far(self, done: int, total: int, note: str = "") -> None:
        """Say that `done` of `total` steps are done, and a note on them."""
        self._done, self._note = (done, total), note
        self._show()

    def look(self) -> None:
        """Show the bar if nothing has been written for long enough."""
        with self._lock:
            silent = self._clock() - self._written_at
            is_due = self._is_at_line_start and silent >= PATIENCE_SECONDS
            if self._bar is None and is_due and self._stream and not self._over.is_set():
                self._bar = _start_bar(self._stream)
        self._show()

    def _watch(self) -> None:
        while not self._over.wait(BETWEEN_LOOKS_SECONDS):
            if self._bar is None:
                self.look()

    def _show(self) -> None:
        bar = self._bar
        if bar is None:
            return
        if self._done is None:  # a task of rich cannot lose its total again
            for task in bar.task_ids:
                bar.remove_task(task)
            bar.add_task(self._text(), total=None)
        else:
            done, total = self._done
            bar.update(bar.task_ids[0], completed=done, total=total, description=self._text())

    def _text(self) -> str:
        if self._note:
            return f"{self._name}: {self._note}"
        return f"{self._name}, {self._stage}" if self._stage else self._name


HEARTBEAT = Heartbeat()
"""The heartbeat of this process; it shows nothing before `begin`."""


class ProgressBar:
    """A `Progress` of one run, of a name, that the heartbeat shows."""

    def __init__(self, name: str, stage: str = "") -> None:
        self._name, self._stage = name, stage

    def __enter__(self) -> ProgressBar:
        HEARTBEAT.at(self._name, self._stage)
        return self

    def __exit__(self, *error: object) -> None:
        HEARTBEAT.stage("")

    def at(self, stage: str) -> None:
        """Show the stage that begins."""
        HEARTBEAT.stage(stage)

    def __call__(self, done: int, total: int, note: str = "") -> None:
        """Show that `done` of `total` instructions (or points) are done, and a note beside it."""
        HEARTBEAT.so_far(done, total, note)


def _start_bar(stream: TextIO) -> Bar:
    from rich.console import Console
    from rich.progress import Progress as Bar

    bar = Bar(
        console=Console(file=stream), transient=True, redirect_stdout=False, redirect_stderr=False
    )
    bar.start()
    return bar
