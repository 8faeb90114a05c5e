"""Every estimate by which the compiler chooses. No bounds, no machine."""
