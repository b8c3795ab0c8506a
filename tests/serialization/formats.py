"""Files in memory, of each format that `save` writes."""

from __future__ import annotations

import io


class Safetensors(io.BytesIO):
    """Its name says which format it is to have."""

    name = "memory.safetensors"
