"""Reports of a run: the summary and its table, the wavefront picture, timelines, comparisons.

Reports read records only, never the machine. Only modules that draw import matplotlib. `summary`,
`table` and the modules that extract the data of pictures do not, so that a run without pictures
does not wait for that import. Pictures of single runs are drawn on a `page` of pixels, for which
matplotlib only sets the letters. Pictures of sweeps and comparisons, which have scales and ticks,
are drawn on a `figure_page`.
"""
