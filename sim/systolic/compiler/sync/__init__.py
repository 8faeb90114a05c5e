"""The fifth pass: dependencies become semaphores."""
