"""Draw the pictures of docs/views.md and README.

python docs/pictures/view_pictures.py [VIEW ...]
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

from systolic.report.plots.look import Look
from systolic.report.plots.table import PLOTS
from systolic.report.wavefront.manner import PLAIN, Manner
from systolic.run.execute import run
from systolic.run.plotted import plotted
from systolic.shipped import CONFIGS

MOST_COLOURS = 96
HERE = Path(__file__).parent
NETWORK = "networks/digits_mlp"
WORKS: dict[str, str] = {
    "timeline": NETWORK,
    "layers": "networks/resnet50",
    "utilisation": NETWORK,
    "roofline": "networks/bert_block",
    "memory": NETWORK,
    "dram": "runs/transpose_ddr4_tiles",
    "banks": NETWORK,
    "wavefront": "runs/transpose_fig3",
    "wavefront_vectors": "runs/transpose_fig4",
    "wavefront_fig4": "runs/transpose_fig4",
}
"""The run that each view shows on its page."""
MANNERS = {
    "wavefront_vectors": ("wavefront", Manner("diagonal", "vector")),
    "wavefront_fig4": ("wavefront", PLAIN),
}
"""Pictures that have another name than their view, and how they are drawn."""
FILES = {"wavefront_fig4": "wavefront_fig4.png"}
"""The files that are called otherwise than view_NAME.png."""


def main() -> None:
    """Write the pictures that are asked for, or all, beside this script."""
    for name in sys.argv[1:] or WORKS:
        view, manner = MANNERS.get(name, (name, PLAIN))
        records = PLOTS[view].records
        result = run(
            CONFIGS / f"{WORKS[name]}.toml",
            values=records.grid,
            kinds=records.words,
            grid=records.grid,
        )
        look = Look(result.summary["run"], manner=manner)
        file = HERE / FILES.get(name, f"view_{name}.png")
        PLOTS[view].write(plotted(result), look, file)
        with Image.open(file) as picture:  # fewer colours are a third of the bytes
            picture.convert("RGB").quantize(MOST_COLOURS).save(file, optimize=True)


if __name__ == "__main__":
    main()
