"""The second pass: nodes become tasks on tiles."""
