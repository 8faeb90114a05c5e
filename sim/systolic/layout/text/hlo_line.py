"""The shape in a line of HLO text: ``%copy.3 = f32[8,128]{1,0:T(8,128)} copy(%p), metadata={...}``.

Not here: what the rest of the line says.
"""

from __future__ import annotations

import re

from systolic.errors import shortened
from systolic.layout.errors import LayoutError

_START = re.compile(r"\s*(?:ROOT\s+)?%?[\w.-]+\s*=\s*")
_ARRAY = re.compile(r"\w+\[[^\]]*\](?:\{[^}]*\})?")


def shape_in_line(text: str) -> str:
    """Return the text of the result's shape in an HLO instruction; any other text as it is.

    Raises:
        LayoutError: the instruction's result is no array, but a tuple, a token, ...

    """
    start = _START.match(text)
    if start is None:
        return text
    found = _ARRAY.match(text, start.end())
    if found is None:
        result = shortened(text[start.end() :])
        raise LayoutError(f'needs an instruction that gives one array, found "{result}"')
    return found[0]
