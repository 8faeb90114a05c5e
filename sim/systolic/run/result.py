"""The result of a run: of a run file, a graph or a program alike.

Not here: how a result is made (`systolic.run.execute`) and written (`systolic.run.folder`).
"""

from __future__ import annotations

import copy
import importlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from systolic.arrays import Array
from systolic.compiler import CompiledGraph
from systolic.errors import SystolicError
from systolic.hw.spec import Chip
from systolic.isa import Program
from systolic.report.summary.wording import number, plural
from systolic.trace.records import Trace

if TYPE_CHECKING:
    from systolic.isa.joint import JointProgram  # chips of one core need none of it

HTML_COLUMNS = 120


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A finished run.

    summary: what summary.json holds, as plain values.
    outputs: arrays in logical order, by name; none if the run was for its times only.
    trace: what was observed: labels of every cycle, words, grid (see `systolic.trace.records`).
    chip, program: the hardware, and the instructions that ran on it.
    compiled: the results of all passes of the compiler; None if the work was a program.
    several: what ran on a chip of several cores, which has that chip; `chip` is then its first
    core, with the name and the ticks of the whole. None: there was one core.
    """

    summary: dict[str, Any]
    outputs: dict[str, Array]
    trace: Trace
    chip: Chip
    program: Program
    compiled: CompiledGraph | None = None
    several: JointProgram | None = None

    @property
    def cycles(self) -> int:
        """Return the cycles of the run, in the array's clock."""
        return self.trace.cycles()

    @property
    def result(self) -> Array | None:
        """Return the first output, which is a lone operation's only one; None for times only."""
        return next(iter(self.outputs.values()), None)

    def to_dict(self) -> dict[str, Any]:
        """Return a copy of the summary, which `json.dumps` takes."""
        return copy.deepcopy(self.summary)

    def to_dataframe(self) -> Any:
        """Return where every cycle went, as a pandas DataFrame.

        A row for each unit and label, with the columns `unit`, `label` and `cycles` (of that
        unit's clock): the cycles of a unit sum to the length of the run.

        Raises:
            SystolicError: pandas is not installed.

        """
        try:
            pandas = importlib.import_module("pandas")
        except ImportError:
            raise SystolicError(
                "to_dataframe: needs pandas, which is not installed (pip install pandas); "
                "to_dict needs nothing"
            ) from None
        return pandas.DataFrame(self._label_rows(), columns=["unit", "label", "cycles"])

    def _label_rows(self) -> list[tuple[str, str, int]]:
        return [
            (unit, label, cycles)
            for unit, spent in self.summary["units"].items()
            for label, cycles in spent["labels"].items()
        ]

    def _repr_html_(self) -> str:
        """Return the table that `systolic run` prints, for notebooks."""
        from rich.console import Console

        from systolic.report.summary.table import print_summary

        screen = Console(
            file=io.StringIO(),
            record=True,
            width=HTML_COLUMNS,
            highlight=False,
            force_jupyter=False,
        )
        print_summary(self.summary, screen)
        return screen.export_html(inline_styles=True, code_format="<pre>{code}</pre>")

    def __repr__(self) -> str:
        name, chip = self.summary["run"], self.chip.name
        outputs = plural(len(self.outputs), "output") if self.outputs else "times only"
        return f"<Result of {name} on {chip}: {number(self.cycles)} cycles, {outputs}>"
