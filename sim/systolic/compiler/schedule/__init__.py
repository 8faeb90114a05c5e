"""The fourth pass: tasks become instructions in the queues of the units."""
