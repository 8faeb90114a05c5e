"""Reports of a run: the summary and its table, the wavefront picture, timelines, comparisons.

Reads records only, never the machine. Modules that draw import matplotlib; `summary`, `table` and
the modules that extract what is drawn do not, so that a run without pictures does not pay for it.
The pictures of single runs are drawn on a `page` of pixels, for which matplotlib only sets the
letters; those with scales and ticks, of sweeps and comparisons, on a `figure_page`.
"""
