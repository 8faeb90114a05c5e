"""HLO text: the programs that XLA takes and prints."""
