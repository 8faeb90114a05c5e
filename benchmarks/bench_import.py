"""What reading a model costs: CPU time of HLO text against that of json's reader of its lines.

Each line of the text is an instruction with a layout and metadata, as XLA prints it.
"""

from __future__ import annotations

import json
import time

from systolic.workload.importers.hlo.interpret import lower_module
from systolic.workload.importers.hlo.read import read_module

INSTRUCTIONS = 10_000
ROUNDS = 5


def text_of(count: int) -> str:
    lines = [
        f"  %a{n} = f32[8,8]{{1,0}} add(%a{n - 1}, f32[8,8]{{1,0}} %a{max(0, n - 5)}), "
        f'metadata={{op_name="jit(f)/x{n}" source_line={n}}}'
        for n in range(1, count + 1)
    ]
    head = "HloModule m\n\nENTRY main {\n  %a0 = f32[8,8]{1,0} parameter(0)\n"
    return head + "\n".join(lines) + "\n}\n"


def cpu_seconds(work) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def main() -> None:
    text = text_of(INSTRUCTIONS)
    as_json = json.dumps(text.splitlines())
    module = read_module(text)
    rows = [
        (
            cpu_seconds(lambda: read_module(text)),
            cpu_seconds(lambda: lower_module(module)),
            cpu_seconds(lambda: json.loads(as_json)),
        )
        for _ in range(ROUNDS)
    ]
    read, lower, other = (min(column) for column in zip(*rows, strict=True))
    print(f"{INSTRUCTIONS:,} instructions, least of {ROUNDS}, seconds of CPU")
    print(f"read   {read:.3f}  ({read / other:.0f} times json's reader of the same lines)")
    print(f"lower  {lower:.3f}  ({lower / read:.2f} times reading)")


if __name__ == "__main__":
    main()
