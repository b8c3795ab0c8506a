"""From events to a recording: the recorder, and what it says of nodes and values."""
