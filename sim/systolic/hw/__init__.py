"""Hardware: specifications of every unit, the machine's data types, closed timing formulas."""
