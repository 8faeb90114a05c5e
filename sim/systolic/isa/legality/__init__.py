"""Is a program legal on a chip? Static rules; not timing, not races."""
