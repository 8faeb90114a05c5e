"""The picture of the wavefront, and the timeline below it."""
