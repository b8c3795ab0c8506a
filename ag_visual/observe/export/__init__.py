"""A recording as a file: JSON, HTML, DOT, without what is private."""
