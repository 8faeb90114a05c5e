"""From one layout to another: plans, and the loop nests they are made of.

Used by `systolic layout --to` and from Python. The compiler does not use it: it cuts its transfers
to and from DRAM itself.
"""
