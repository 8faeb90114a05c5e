"""What pictures are drawn on: page, style, lettering, PNG."""
