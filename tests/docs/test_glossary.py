"""Is the glossary a list of terms: each once, sorted, and none without a meaning?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

GLOSSARY = Path(__file__).resolve().parents[2] / "docs" / "glossary.md"


def rows() -> list[tuple[str, str]]:
    """Return the terms and the meaning of each row."""
    lines = GLOSSARY.read_text(encoding="utf-8").splitlines()
    table = lines[lines.index("|---|---|") + 1 :]
    cells = [line.strip("|").split("|", 1) for line in table]
    return [(terms.strip(), meaning.strip()) for terms, meaning in cells]


def test_no_term_stands_twice() -> None:
    counts = Counter(term.casefold() for terms, _ in rows() for term in terms.split(", "))
    assert [term for term, count in counts.items() if count > 1] == []


def test_terms_are_sorted() -> None:
    terms = [terms.casefold() for terms, _ in rows()]
    assert terms == sorted(terms)


def test_every_term_has_a_meaning_of_its_own() -> None:
    meanings = [meaning for _, meaning in rows()]
    assert all(meanings)
    assert len(set(meanings)) == len(meanings)
