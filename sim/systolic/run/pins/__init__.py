"""Pinned cycle counts: what runs take is compared with a file of counts, or written to it.

Every run is run for its times alone. `works`: which runs there are, and their names among the
counts. `pin`: what is pinned of a run. `file`: the file of counts. `compare`: a run against its
pin. `check`: many runs against a file, in several processes. `reports`: findings as files for CI.
The command `systolic check` and the pytest plugin compute with these modules and add nothing.
"""
