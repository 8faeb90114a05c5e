"""Published figures of a machine against what the simulator gives: `systolic validate`.

A table of rows is read (`table`), each row is run (`programs`) and measured (`measures`), and its
value is held against the published one (`validate`).
"""
