"""What engines do with elements: element by element, along rows, over windows."""
