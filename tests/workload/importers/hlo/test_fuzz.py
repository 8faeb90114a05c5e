"""Does it run? Damaged HLO texts are refused with a line, or read; nothing else happens.

SYSTOLIC_FUZZ_CASES says how many cases are drawn; 10,000 were, by the seeds 0 to 9,999.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from systolic.errors import SystolicError
from systolic.workload.importers.hlo.interpret import lower_module
from systolic.workload.importers.hlo.read import read_module

from .fuzz import KINDS, REFUSED, damaged, outcome

TEXTS = [path.read_text() for path in sorted((Path(__file__).parent / "corpus").glob("*.hlo"))]
CASES = int(os.environ.get("SYSTOLIC_FUZZ_CASES", "1000"))


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_texts(kind: str) -> None:
    tried = 0
    for seed in range(KINDS.index(kind), CASES, len(KINDS)):
        rng = random.Random(seed)
        text = damaged(rng.choice(TEXTS), kind, rng)
        if text is None:
            continue
        tried += 1
        assert outcome(text) == "refused" or kind not in REFUSED, f"seed {seed}"
    assert tried > CASES // len(KINDS) // 2


HEAD = "HloModule m\n\n"
ADD = "ENTRY main {\n  a = f32[2]{0} parameter(0)\n  ROOT b = f32[2]{0} add(a, a)\n}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello", 'line 1, column 1: needs HLO text, which begins with "HloModule", found "hello"'),
        (HEAD, "line 3, column 1: needs an ENTRY computation, found none"),
        (HEAD + ADD[:-2], 'line 3, column 7: computation "main" has no "}" at its end'),
        (
            HEAD + ADD.replace("add(a, a)", "add(a, c)"),
            'line 5, column 3: "b" takes "c", which nothing before it makes',
        ),
        (
            HEAD + ADD.replace("ROOT b = f32[2]", "ROOT b = f32[3]"),
            "line 5, column 8: add gives f32[2], but the text says f32[3]",
        ),
        (
            HEAD + ADD.replace("f32[2]{0} parameter", "f32[<=2]{0} parameter"),
            "line 4, column 7: f32[<=2]{0}: sizes that are not known until a run are not done",
        ),
        (HEAD + ADD + ADD, 'line 7, column 7: computation "main" is there twice'),
        (
            HEAD + ADD.replace("add(a, a)", "call(a), to_apply=main"),
            "line 3, column 7: main calls itself",
        ),
        (
            HEAD + ADD.replace("add(a, a)", "constant({...})"),
            "line 5, column 8: the text leaves out the elements of this constant: print it again "
            "with print_large_constants (of HloPrintOptions)",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, message: str) -> None:
    with pytest.raises(SystolicError) as error:
        lower_module(read_module(text))
    assert str(error.value) == message


def test_a_text_reads_with_and_without_percent_signs() -> None:
    marked = ADD.replace("a =", "%a =").replace("b =", "%b =").replace("(a, a)", "(f32[2] %a, %a)")
    for text in (HEAD + ADD, HEAD + marked.replace("main", "%main (p: f32[2]) -> f32[2]")):
        assert [each.opcode for each in read_module(text).entry.instructions] == [
            "parameter",
            "add",
        ]
