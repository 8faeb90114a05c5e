"""`python -m sim` is `systolic`."""

from sim.cli import main

if __name__ == "__main__":
    main()
