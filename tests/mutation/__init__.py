"""Do the tests notice a mistake? Draws small mistakes, makes each in a copy, and runs tests on it.

    python -m tests.mutation map   [--jobs 1]              once per tree: which test runs which line
    python -m tests.mutation run   [--number 400] [--seed 1] [--jobs 2] [PACKAGE_OR_FILE ...]
    python -m tests.mutation sites [PACKAGE_OR_FILE ...]   what could be drawn, counted
    python -m tests.mutation report                        score and survivors so far

From the root of a checkout. PACKAGE_OR_FILE is below the package, such as `machine` or
`isa/legality`; without any: machine, compiler, isa, layout, hw, bounds. The package is the one that
the command `systolic` of pyproject.toml lies in, wherever it is.

Everything runs in copies of the tree in a temporary folder; the checkout itself is only read.
Results are lines of JSON (--results, out/mutation/results.jsonl), one for each mutant as it is
decided: the same command again goes on where it stopped. A mutant is killed by a test that fails,
by a test that takes ten times its processor time, or by a run that cannot begin; it survives if
all tests that execute its line, or failing those its function, pass (--limit seconds of them at
most). Those of its own package come first, the quickest first. Tests marked slow are not run.

`equivalent.toml` beside this file lists survivors that no test can notice, each with a reason.
"""
