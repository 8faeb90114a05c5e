"""Which modules do three small things load: the package, its version, a run without picture?

Benchmarks measure times. These tests name the modules that none of the three may load.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FIG3 = Path(__file__).resolve().parents[2] / "configs" / "runs" / "transpose_fig3.toml"
COMMAND = """
import sys
from systolic.cli.main import main
sys.argv = ["systolic", *{arguments!r}]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""
LIBRARIES = {"numpy", "pydantic", "typer", "rich", "ml_dtypes", "simpy", "numba", "matplotlib"}


def loaded(code: str, folder: Path) -> set[str]:
    script = f"{code}\nimport sys\nsys.stderr.write(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


def test_the_package_loads_nothing_else(tmp_path: Path) -> None:
    found = loaded("import systolic", tmp_path)
    assert not found & LIBRARIES
    assert [name for name in found if name.startswith("systolic")] == ["systolic"]


def test_the_version_loads_no_library(tmp_path: Path) -> None:
    for option in ("--version", "-V"):
        assert not loaded(COMMAND.format(arguments=[option]), tmp_path) & LIBRARIES


def test_a_small_run_loads_only_what_it_needs(tmp_path: Path) -> None:
    arguments = ["run", str(FIG3), "--no-plots"]
    found = loaded(COMMAND.format(arguments=arguments), tmp_path)
    assert "numpy" in found
    not_needed = {
        "matplotlib", "numba", "rich.progress", "pandas", "numpy.random",
        "systolic.machine.register", "systolic.report.wavefront", "systolic.report.sweeps",
        "systolic.sweep", "systolic.run.processes",
        "systolic.run.pins", "systolic.run.snapshot", "systolic.run.export",
        "systolic.run.again", "systolic.cli.run_program", "systolic.cli.run_sweep",
        "systolic.cli.layout", "systolic.isa.formats.binary", "systolic.isa.formats.write_text",
        "systolic.layout.broadcasting",
        "systolic.report.views", "systolic.config.dump", "systolic.config.sweep",
        "systolic.machine.event.dram", "systolic.machine.event.dma.bursts",
        "systolic.machine.event.fetch", "systolic.isa.formats.module",
    }  # fmt: skip
    assert sorted(found & not_needed) == []
