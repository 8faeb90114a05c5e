"""The command line: `systolic run`, `trace`, `check`, `schema` and more.

With its neighbours `cli_*` the only place that prints.

Every error a user can cause is one line on stderr and exit status 2; a result that is not what it
must be (wrong, or not the same again; a moved count; a finding of the checker) is status 1. Nobody
sees a traceback unless SYSTOLIC_DEBUG=1. Modules are imported where they are used, so that a
command loads only what it needs. Not here: what a run is (`systolic.run.execute`) and what its
output looks like (`systolic.cli.run`).
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from systolic.cli.options import (
    NO_CONFIG,
    is_program,
    message_of,
    program_options,
    refuse_jobs,
    refuse_with_again,
    run_file_overrides,
    values_wanted,
)
from systolic.errors import InterruptedRunError, ResultError, SystolicError, readable, shortened

NOT_AS_IT_MUST_BE, ERROR, BUG, INTERRUPTED = 1, 2, 1, 130
LONGEST_LINE = 2000

# Commands with a module of their own, imported only when one is asked for.
LATER_COMMANDS = {
    "layout": ("systolic.cli.layout", "layout_command"),
    "compile": ("systolic.cli.compile", "compile_command"),
    "at": ("systolic.cli.at", "at_command"),
    "watch": ("systolic.cli.at", "watch_command"),
    "lint": ("systolic.cli.program_files", "lint_command"),
    "assemble": ("systolic.cli.program_files", "assemble_command"),
    "disassemble": ("systolic.cli.program_files", "disassemble_command"),
}

app = typer.Typer(
    name="systolic",
    help="A cycle-accurate, value-exact simulator of a systolic-array accelerator.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Config = Annotated[
    Path,
    typer.Argument(help="Run file (.toml), or a program (any other file).", metavar="CONFIG"),
]
Engine = Annotated[
    str | None, typer.Option("--engine", help="event or register (default: as the run file says).")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help='Replace a value of the run file, or "chip." of its chip.',
    ),
]
ChipName = Annotated[
    str | None, typer.Option("--chip", help="A chip's name or file (default: the file's own).")
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="NAME=FILE.npy",
        help="An input of a program, or a folder that holds them as NAME.npy.",
    ),
]
NoCheck = Annotated[
    bool,
    typer.Option("--no-check", help="Run a program though the checker finds races in it."),
]


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Handle the options that need no command."""


@app.command()
def run(
    config: Annotated[
        Path | None,
        typer.Argument(help="Run file (.toml), or a program (any other file).", metavar="CONFIG"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "--output", help="Folder for the results (default: out/NAME)."),
    ] = None,
    engine: Engine = None,
    chip: ChipName = None,
    inputs: Inputs = None,
    no_check: NoCheck = False,
    overrides: Overrides = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print summary.json, no table.")] = False,
    no_plots: Annotated[bool, typer.Option("--no-plots", help="Draw no pictures.")] = False,
    values: Annotated[
        str, typer.Option("--values", help="exact, or none: times only, the same cycles.")
    ] = "exact",
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, help="Points of a sweep that run at once (default: 1)."),
    ] = None,
    again: Annotated[
        Path | None,
        typer.Option("--again", metavar="SUMMARY", help="Do the run of a summary.json again."),
    ] = None,
) -> None:
    """Run a run file or a program: print a table; write summary.json, .npy files and a picture."""
    from systolic.cli.run import run_and_report
    from systolic.config import load_run

    exact = values_wanted(values)
    if again is not None:
        from systolic.cli.again import run_again

        refuse_with_again(config, overrides, engine, chip, inputs, no_check, exact)
        run_again(again, out, as_json=as_json, plots=not no_plots)
        return
    if config is None:
        raise SystolicError(NO_CONFIG)
    if is_program(config):
        refuse_jobs(config, jobs)
        from systolic.cli.run_program import prepare, run_program_and_report

        options = program_options(config, chip, inputs, overrides, engine, exact, not no_check)
        folder = out or Path("out") / config.stem
        run_program_and_report(prepare(options), folder, as_json=as_json, plots=not no_plots)
        return
    loaded = load_run(config, run_file_overrides(config, overrides, engine, chip, inputs, no_check))
    folder = out or Path("out") / loaded.name
    if loaded.sweep:
        from systolic.cli.run_sweep import SweepOptions, sweep_and_report

        sweep_and_report(loaded, folder, SweepOptions(jobs or 1, exact, as_json, not no_plots))
        return
    refuse_jobs(config, jobs)
    run_and_report(loaded, folder, as_json=as_json, plots=exact and not no_plots, values=exact)


@app.command()
def trace(
    config: Config,
    kind: Annotated[
        str,
        typer.Option("--kind", help="load, inject, psum_write, read, write, stall, wait or post."),
    ] = "psum_write",
    engine: Engine = None,
    chip: ChipName = None,
    inputs: Inputs = None,
    no_check: NoCheck = False,
    overrides: Overrides = None,
) -> None:
    """Print a run's words or events as CSV: cycle,unit,partition,address,value."""
    from systolic.cli.trace import needs_values, trace_lines
    from systolic.config import load_run

    if is_program(config):
        from systolic.cli.run_program import program_trace

        options = program_options(
            config, chip, inputs, overrides, engine, needs_values(kind), not no_check
        )
        lines = program_trace(options, kind)
    else:
        given = run_file_overrides(config, overrides, engine, chip, inputs, no_check)
        lines = trace_lines(load_run(config, given), kind)
    for line in lines:
        sys.stdout.write(line + "\n")


@app.command()
def check(
    configs: Annotated[
        list[Path] | None,
        typer.Argument(help="Run files (default: all that are shipped).", metavar="[CONFIG]..."),
    ] = None,
    update: Annotated[bool, typer.Option("--update", help="Write the counts found.")] = False,
    pins: Annotated[
        Path | None, typer.Option("--pins", help="File of counts (default: the shipped one).")
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option(
            "--runs",
            metavar="DIR",
            help="Folder that names of counts start from (default: the file of counts' own).",
        ),
    ] = None,
) -> None:
    """Compare cycle counts with the pinned ones; exit status 1 if one has moved or is missing."""
    from systolic.run import pins as checking

    ok = True
    for finding in checking.check(configs, pins, update=update, runs=runs):
        ok = ok and finding.ok
        typer.echo(finding.text)
    if not ok:
        raise typer.Exit(1)


@app.command()
def schema(kind: Annotated[str, typer.Argument(help="chip or run.")]) -> None:
    """Print the JSON schema of chip or run files, for editors."""
    from systolic import config

    typer.echo(json.dumps(config.schema(kind), indent=2))


def main() -> None:
    """Run the command line and exit with its status."""
    from systolic.cli.screen import settle

    settle()
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from systolic import __version__

        typer.echo(f"systolic {__version__}")
        sys.exit(0)
    sys.exit(call(arguments))


def call(arguments: list[str]) -> int:
    """Run the command line `arguments` and return its exit status; never raises an Exception."""
    try:
        _add_later_commands(arguments)
        status = app(arguments, standalone_mode=False, prog_name="systolic")
        sys.stdout.flush()
    except InterruptedRunError as error:
        return fail(message_of(error), INTERRUPTED)
    except ResultError as error:
        return fail(message_of(error), NOT_AS_IT_MUST_BE)
    except SystolicError as error:
        return fail(message_of(error), ERROR)
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except MemoryError:
        return fail("this computer has too little memory for this", ERROR)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0  # the reader of the output has left: that is no failure of the command
    except OSError as error:
        return fail(str(error), ERROR)
    except Exception as error:
        return _bug_or_usage(error)
    return status if isinstance(status, int) else 0


def fail(message: str, status: int) -> int:
    """Print one line on stderr and return the status."""
    line = shortened(readable(" ".join(message.split())), LONGEST_LINE)
    sys.stderr.write(f"systolic: error: {line}\n")
    return status


def _bug_or_usage(error: Exception) -> int:
    """Report what typer says of the arguments; its error class differs between its versions."""
    formatted: Callable[[], str] | None = getattr(error, "format_message", None)
    if formatted is None:
        return _bug(error)
    if not formatted():
        return ERROR  # no command was given, and the help has been printed
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "systolic"
    return fail(f"{formatted()} ({path} --help lists the options)", ERROR)


def _bug(error: Exception) -> int:
    if os.environ.get("SYSTOLIC_DEBUG") == "1":
        raise error
    text = f"{type(error).__name__}: {error}"
    return fail(f"a bug in systolic: {text} (please report it; SYSTOLIC_DEBUG=1 shows where)", BUG)


def _add_later_commands(arguments: list[str]) -> None:
    """Register the commands of other modules when asked for, or when all commands are listed."""
    known = {command.name for command in app.registered_commands}
    for name, (module, function) in LATER_COMMANDS.items():
        wanted = not arguments or arguments[0] in (name, "-h", "--help")
        if wanted and name not in known:
            app.command(name)(getattr(importlib.import_module(module), function))
