"""Add up JUnit reports; name what did not pass; fail on failures, on skips, and on no tests."""

import sys
import xml.etree.ElementTree as ElementTree

COUNTS = ("tests", "failures", "errors", "skipped")
OUTCOMES = ("failure", "error", "skipped")


def main(paths: list[str]) -> int:
    """Print each test that did not pass, then how many of each; return the exit status."""
    total = dict.fromkeys(COUNTS, 0)
    for path in paths:
        for suite in ElementTree.parse(path).getroot().iter("testsuite"):
            for name in COUNTS:
                total[name] += int(suite.get(name, 0))
            for case in suite.iter("testcase"):
                test = f"{case.get('classname')}.{case.get('name')}"
                for outcome in case:
                    if outcome.tag in OUTCOMES:
                        print(f"{outcome.tag}: {test}: {outcome.get('message')}")
    failed = total["failures"] + total["errors"]
    passed = total["tests"] - failed - total["skipped"]
    print(f"{passed} passed, {failed} failed, {total['skipped']} skipped")
    return int(failed > 0 or total["skipped"] > 0 or passed == 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
