"""Where elements lie, here and there: one algebra of modes, and boxes for ragged edges."""
