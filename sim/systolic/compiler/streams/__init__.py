"""Work that need not pass through the array, as moves with an operation on the way."""
