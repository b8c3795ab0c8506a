"""Two recordings side by side."""
