"""Build a bench of `hdl/` with Verilator or Icarus.

What it is: tool detection, command lines and the cache of executables (in the temporary folder of
the system, or in $SYSTOLIC_RTL_CACHE), keyed by tool, parameters and the content of every source.
What it is not: aware of programs or dumps; `rtl_harness` is.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

Tool = Literal["verilator", "icarus"]
TOOLS: tuple[Tool, ...] = ("verilator", "icarus")
PROGRAMS = {"verilator": ("verilator", "make", "g++"), "icarus": ("iverilog", "vvp")}
HDL = Path(__file__).parent / "hdl"
CACHE_VARIABLE = "SYSTOLIC_RTL_CACHE"
BUILD_SECONDS = 1200


def missing_programs(tool: str) -> list[str]:
    """The programs of `tool` that are not on PATH."""
    return [name for name in PROGRAMS[tool] if shutil.which(name) is None]


@cache
def tool_version(tool: Tool) -> str:
    """The version line of the simulator; part of the key of a build."""
    command = ["verilator", "--version"] if tool == "verilator" else ["iverilog", "-V"]
    return checked(command, Path.cwd()).splitlines()[0]


def checked(command: Sequence[str], folder: Path, seconds: int = BUILD_SECONDS) -> str:
    """Run a command; its output, or an error that shows the end of it."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds)
    if done.returncode:
        tail = (done.stdout + done.stderr)[-4000:]
        raise RuntimeError(f"{command[0]} failed with status {done.returncode}:\n{tail}")
    return done.stdout


def cache_folder() -> Path:
    """Where builds are kept, outside the repository."""
    chosen = os.environ.get(CACHE_VARIABLE)
    base = Path(chosen) if chosen else Path(tempfile.gettempdir()) / f"systolic-rtl-{os.getuid()}"
    base.mkdir(parents=True, exist_ok=True)
    return base


def build(
    folder: Path,
    top: str,
    sources: Sequence[str],
    parameters: dict[str, int],
    tool: Tool,
    *,
    native: bool = False,
) -> list[str]:
    """Build a bench; returns the command that runs it.

    Icarus is built in `folder` (a tenth of a second), Verilator's executables stay in the cache.
    `native` compiles Verilator's model for speed (for benchmarks), otherwise for a short build.
    """
    if tool == "icarus":
        build_icarus(top, sources, parameters, folder)
        return ["vvp", "-n", str(folder / "top.vvp")]
    optimise = "-O3 -march=native" if native else "-O1"
    key = hashlib.sha256(f"{tool_version(tool)} {top} {sources} {parameters} {optimise}".encode())
    for path in [*sorted(HDL.iterdir()), Path(__file__)]:
        key.update(path.read_bytes())
    home = cache_folder() / f"{top}-{key.hexdigest()[:16]}"
    if not home.exists():
        with tempfile.TemporaryDirectory(prefix="systolic-rtl-build-") as name:
            build_verilator(top, sources, parameters, Path(name), optimise)
            publish(Path(name), ["Vtop"], home)
    return [str(home / "Vtop")]


def publish(folder: Path, names: Sequence[str], home: Path) -> None:
    """Put finished files into the cache in one move; another process may have been faster."""
    fresh = Path(tempfile.mkdtemp(dir=cache_folder()))
    for name in names:
        shutil.copy(folder / name, fresh / name)
    try:
        fresh.rename(home)
    except OSError:
        shutil.rmtree(fresh)


def build_verilator(
    top: str, sources: Sequence[str], parameters: dict[str, int], folder: Path, optimise: str
) -> None:
    """Verilate and compile; the run-time library is compiled once and kept in the cache."""
    command = ["verilator", "--cc", "--exe", "-O3", "--prefix", "Vtop", "--top-module", top]
    command += ["--x-assign", "unique", "--x-initial", "unique", "--unroll-count", "1"]
    command += ["-Wno-fatal", f"-I{HDL}", *array_macro(sources), "--Mdir", str(folder)]
    command += [f"-G{name}={value}" for name, value in parameters.items()]
    checked([*command, *(str(HDL / name) for name in (*sources, "main.cpp"))], folder)

    key = hashlib.sha256(f"{tool_version('verilator')} {optimise}".encode())
    library = cache_folder() / f"runtime-{key.hexdigest()[:16]}"
    objects = ("verilated.o", "verilated_threads.o")
    if library.exists():
        for name in objects:
            shutil.copy(library / name, folder / name)
    checked(["make", "-f", "Vtop.mk", f"OPT_FAST={optimise}", "Vtop"], folder)
    if not library.exists():
        publish(folder, objects, library)


def array_macro(sources: Sequence[str]) -> list[str]:
    """The macro by which the bench knows which form of the array it is to instantiate."""
    return ["-DARRAY=pe_array_structural"] if "pe_array_structural.v" in sources else []


def build_icarus(
    top: str, sources: Sequence[str], parameters: dict[str, int], folder: Path
) -> None:
    """Compile for vvp, with the free-running clock as the top module."""
    settings = ", ".join(f".{name}({value})" for name, value in parameters.items())
    bench = f"{top} #({settings})" if settings else top
    command = ["iverilog", "-g2005", f"-I{HDL}", f"-DBENCH={bench}", *array_macro(sources)]
    command += ["-s", "clock"]
    checked([*command, "-o", "top.vvp", *(str(HDL / n) for n in ("clock.v", *sources))], folder)
