"""torch's numbers for the modes and the paddings of grid_sample.

Layer 1.
"""

from __future__ import annotations

BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2
