"""Findings as texts for CI: JUnit's XML, which CI servers read, and Markdown, for people.

Not here: writing the texts to files (`systolic.cli.check`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from xml.etree import ElementTree

from systolic.errors import printable
from systolic.report.summary.wording import number, plural
from systolic.run.pins.compare import Finding

SUITE = "systolic check"


def junit(findings: Sequence[Finding]) -> str:
    """Return the findings as a JUnit report: a test case for each run, a failure if it moved."""
    failed = [finding for finding in findings if not finding.ok]
    counts = {"tests": str(len(findings)), "failures": str(len(failed)), "errors": "0"}
    tree = ElementTree.TreeBuilder()
    tree.start("testsuites", {"name": SUITE, **counts})
    tree.start("testsuite", {"name": SUITE, **counts, "skipped": "0"})
    for finding in findings:
        tree.start("testcase", {"classname": SUITE, "name": printable(finding.name)})
        if not finding.ok:
            lines = _lines(finding)
            tree.start("failure", {"message": lines[0]})
            tree.data("\n".join(lines))
            tree.end("failure")
        tree.end("testcase")
    tree.end("testsuite")
    tree.end("testsuites")
    suites = tree.close()
    ElementTree.indent(suites)
    text: str = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def markdown(findings: Sequence[Finding]) -> str:
    """Return the findings as Markdown: a table of all runs, and what moved in those that moved."""
    failed = [finding for finding in findings if not finding.ok]
    right = len(findings) - len(failed)
    lines = [
        "# Cycle counts",
        "",
        f"{plural(len(findings), 'run')}: {right} as pinned, {len(failed)} not.",
        "",
        "| run | pinned | found | change |",
        "|---|---:|---:|---:|",
        *map(_row, findings),
    ]
    for finding in failed:
        lines += ["", "```text", *_lines(finding), "```"]
    return "\n".join(lines) + "\n"


REPORTS: dict[str, Callable[[Sequence[Finding]], str]] = {"junit": junit, "markdown": markdown}
"""The kinds of reports, by the name of the option that asks for one."""


def _row(finding: Finding) -> str:
    before = None if finding.pinned is None else finding.pinned.cycles
    after = None if finding.found is None else finding.found.cycles
    change = "" if before is None or after is None else f"{after - before:+,}"
    name = printable(finding.name).replace("|", "\\|")
    state = "" if finding.ok else " **not as pinned**"
    return f"| {name}{state} | {_cell(before)} | {_cell(after)} | {change} |"


def _cell(cycles: int | None) -> str:
    return "-" if cycles is None else number(cycles)


def _lines(finding: Finding) -> list[str]:
    return [printable(line) for line in finding.text.split("\n")]
