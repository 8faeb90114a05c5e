"""The table of commands. A command's module is imported when the arguments name the command."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from typing import Annotated

import typer

from systolic import __version__
from systolic.errors import SystolicError, perhaps, shortened

# The module of each command in `systolic.cli`, and its function there, in the order of the help.
COMMANDS = {
    "run": ("run", "run_command"),
    "import": ("import_model", "import_command"),
    "trace": ("trace", "trace_command"),
    "explain": ("explain", "explain_command"),
    "diff": ("diff", "diff_command"),
    "export": ("export", "export_command"),
    "plot": ("plot", "draw_command"),
    "sweep": ("sweep", "sweep_command"),
    "check": ("check", "check_command"),
    "examples": ("examples", "examples_command"),
    "chip": ("chip", "chip_command"),
    "validate": ("validate", "validate_command"),
    "topology": ("topology", "topology_command"),
    "schema": ("schema", "schema_command"),
    "layout": ("layout", "layout_command"),
    "compile": ("compile", "compile_command"),
    "at": ("at", "at_command"),
    "watch": ("watch", "watch_command"),
    "lint": ("lint", "lint_command"),
    "assemble": ("assemble", "assemble_command"),
    "disassemble": ("assemble", "disassemble_command"),
}
COMPLETION = "_SYSTOLIC_COMPLETE"
"""The environment variable by which a shell asks for completions."""

Abort = typer.Abort


def app_for(arguments: list[str]) -> typer.Typer:
    """Return the command line with the command that the arguments name.

    If they name none, it has all commands, which the help and a shell's completion list. Raises
    SystolicError if there is no command of that name.
    """
    first = arguments[0] if arguments else ""
    if not first or first.startswith("-") or COMPLETION in os.environ:
        return _app(COMMANDS)
    if first not in COMMANDS:
        known = ", ".join(COMMANDS)
        raise SystolicError(
            f"No such command '{shortened(first)}' (known: {known}){perhaps(first, COMMANDS)}"
        )
    return _app([first], completion=False)


def _app(names: Iterable[str], *, completion: bool = True) -> typer.Typer:
    app = typer.Typer(
        name="systolic",
        help="A cycle-accurate, value-exact simulator of a systolic-array accelerator.",
        add_completion=completion,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(options)
    for name in names:
        module, function = COMMANDS[name]
        found = importlib.import_module(f"systolic.cli.{module}")
        app.command(name)(getattr(found, function))
    return app


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"systolic {__version__}")
        raise typer.Exit


def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", help="Print the version.", is_eager=True, callback=_say_version
        ),
    ] = False,
) -> None:
    """Handle the options that need no command."""
