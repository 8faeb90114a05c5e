"""The picture of the wavefront, and the timeline of all units."""
