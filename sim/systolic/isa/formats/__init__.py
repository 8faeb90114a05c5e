"""Programs as files: modules, the text form, the binary form."""
