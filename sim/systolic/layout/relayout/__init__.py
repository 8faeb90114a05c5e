"""From one layout to another: plans, and the loop nests they are made of."""
