"""What an error says beyond torch's first line: variables, places in the source, repairs."""
