"""Copying from one layout to another: plans, and the loop nests that they consist of.

`systolic layout --to` and Python callers use it. The compiler does not: it cuts its transfers to
and from DRAM itself.
"""
