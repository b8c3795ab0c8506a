"""The format in which a recording travels, and its encoding."""
