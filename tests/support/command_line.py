"""The command line as a function: status, stdout and stderr of one call, in this process."""

from __future__ import annotations

import contextlib
import io

from systolic.cli.main import call


def run_command(*arguments: object) -> tuple[int, str, str]:
    """Call `systolic` with these arguments; return its exit status, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = call([str(argument) for argument in arguments])
    return status, out.getvalue(), err.getvalue()


def refused(*arguments: object) -> str:
    """Return the one line by which a command is refused, without its prefix."""
    status, out, err = run_command(*arguments)
    assert (status, out) == (2, ""), (status, out, err)
    assert err.startswith("systolic: error: "), err
    assert err.count("\n") == 1, err
    assert "Traceback" not in err, err
    return err.removeprefix("systolic: error: ").rstrip("\n")
