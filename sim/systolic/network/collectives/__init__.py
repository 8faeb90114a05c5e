"""Collectives as programs of messages: what each message carries, and what it waits for."""
