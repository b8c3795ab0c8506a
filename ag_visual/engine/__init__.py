"""Running a graph: `run` (order and the loop), `accumulate` (into leaves), `hook_calls`."""
