"""torch.signal: windows for spectra, in `torch.signal.windows`."""

from __future__ import annotations

from ag_visual import absent as _absent
from ag_visual.names import expose as _expose
from ag_visual.signal import windows as windows

_expose(__name__, "windows")

__getattr__ = _absent.asked(__name__, "signal")
