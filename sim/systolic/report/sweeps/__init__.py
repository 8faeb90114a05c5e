"""Pictures of sweeps and comparisons."""
