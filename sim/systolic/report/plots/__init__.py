"""The views of `systolic plot`: a file for each, and a table that names them (`table`).

A view says what it shows of a run (plain data, tested against the run) and draws that on a sheet.
Only `sheet` and `marks` load matplotlib, when a picture is drawn.
"""
