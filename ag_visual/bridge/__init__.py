"""The real torch under the Inspector: the second writer of events, beside this package's engine.

The one package that imports torch, and only when `watch` is called. Nothing below imports it: it
answers `events.live` and writes into `events.log`, as every engine does.
"""

from ag_visual.bridge.watch import watch

__all__ = ["watch"]
