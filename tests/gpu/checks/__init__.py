"""The checks of an acceptance run, by section, in the order of the page."""

from . import table, dtypes, transfers, streams, memory, exchange, profiler, inspector, ratios  # noqa: F401, I001
