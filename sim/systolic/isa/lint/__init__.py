"""The program checker: races, order, posts and guarantees, without running a program."""
