"""`python -m systolic` is `systolic`."""

from systolic.cli.main import main

if __name__ == "__main__":
    main()
