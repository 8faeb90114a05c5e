"""Add up JUnit reports and print one closing line; fail on failures, on skips, and on no tests."""

import sys
import xml.etree.ElementTree as ElementTree

COUNTS = ("tests", "failures", "errors", "skipped")


def main(paths: list[str]) -> int:
    """Print ``N passed, N failed, N skipped`` over all reports; return the exit status."""
    total = dict.fromkeys(COUNTS, 0)
    for path in paths:
        for suite in ElementTree.parse(path).getroot().iter("testsuite"):
            for name in COUNTS:
                total[name] += int(suite.get(name, 0))
    failed = total["failures"] + total["errors"]
    passed = total["tests"] - failed - total["skipped"]
    print(f"{passed} passed, {failed} failed, {total['skipped']} skipped")
    return int(failed > 0 or total["skipped"] > 0 or passed == 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
