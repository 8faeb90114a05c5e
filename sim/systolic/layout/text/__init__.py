"""The text form of shapes: tokens, forms, reading."""
