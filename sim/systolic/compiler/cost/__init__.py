"""Every estimate by which the compiler chooses. Not here: bounds and the machine."""
