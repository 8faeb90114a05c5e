"""The command line as a program: arguments lead to a command, an error to a line and a status.

Every error that a user can cause is one line on stderr and exit status 2. Exit status 1 means that
a result is not what it must be: it is wrong, it is not the same again, a count has moved, or the
checker found an error. A traceback is shown only if SYSTOLIC_DEBUG=1. This package is the only
place that prints. Not here: the commands (`systolic.cli.commands` has their table).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from systolic import __version__
from systolic.errors import InterruptedRunError, ResultError, SystolicError, readable, shortened

NOT_AS_IT_MUST_BE, ERROR, BUG, INTERRUPTED = 1, 2, 1, 130
LONGEST_LINE = 2000
# The option by which a user gives the `setting` that an error of the library asks for.
OPTION_OF = {
    "chip": "--chip CHIP",
    "input": "--input NAME=FILE.npy",
    "shape": "--shape NAME=SIZES",
    "folder": "--out FOLDER",
    "jobs": "--jobs N",
    "pins": "--pins FILE",
}


def main() -> None:
    """Run the command line and exit with its status."""
    from systolic.cli.screen import leave, settle

    settle()
    # Pydantic looks for plugins in everything that is installed; systolic uses none.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["-V"]):  # answered without the imports of a command
        sys.stdout.write(f"systolic {__version__}\n")
        sys.exit(0)
    status = call(arguments)
    leave()
    sys.exit(status)


def call(arguments: list[str]) -> int:
    """Run the command line `arguments` and return its exit status; never raises an Exception."""
    from systolic.cli.commands import Abort, app_for

    try:
        status = app_for(arguments)(arguments, standalone_mode=False, prog_name="systolic")
        sys.stdout.flush()
    except InterruptedRunError as error:
        return fail(message_of(error), INTERRUPTED)
    except ResultError as error:
        return fail(message_of(error), NOT_AS_IT_MUST_BE)
    except SystolicError as error:
        return fail(message_of(error), ERROR)
    except (Abort, KeyboardInterrupt):
        return fail("interrupted", INTERRUPTED)
    except MemoryError:
        return fail("this computer has too little memory for this", ERROR)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0  # The reader of the output has gone, which is no failure of the command.
    except OSError as error:
        return fail(str(error), ERROR)
    except Exception as error:
        return _bug_or_usage(error)
    if status == INTERRUPTED:  # typer makes a status of Ctrl-C
        return fail("interrupted", INTERRUPTED)
    return status if isinstance(status, int) else 0


def message_of(error: SystolicError) -> str:
    """Return an error's message, with the option for the setting that it asks for."""
    return str(error) if error.setting is None else f"{error} ({OPTION_OF[error.setting]})"


def fail(message: str, status: int) -> int:
    """Print one line on stderr and return the status."""
    line = shortened(readable(" ".join(message.split())), LONGEST_LINE)
    sys.stderr.write(f"systolic: error: {line}\n")
    return status


def _bug_or_usage(error: Exception) -> int:
    """Report typer's error about the arguments, whose class depends on the version of typer."""
    formatted: Callable[[], str] | None = getattr(error, "format_message", None)
    if formatted is None:
        return _bug(error)
    if not formatted():
        return ERROR  # No command was given, and typer has printed the help.
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "systolic"
    return fail(f"{formatted()} ({path} --help lists the options)", ERROR)


def _bug(error: Exception) -> int:
    if os.environ.get("SYSTOLIC_DEBUG") == "1":
        raise error
    text = f"{type(error).__name__}: {error}"
    return fail(f"a bug in systolic: {text} (please report it; SYSTOLIC_DEBUG=1 shows where)", BUG)
