"""One backward through several streams of a GPU: each node runs in the stream of its forward op.

A stream waits for what its nodes take from another one, and who called the backward for all of
them. Nodes that were made in no chosen stream run in the default one, leaves in the caller's.
"""

from __future__ import annotations

from typing import Any

from ag_visual.core import modes


class Streams:
    """The streams of one backward. Streams are those of torch.cuda (see `modes.StreamsOf`)."""

    def __init__(self, chosen: modes.StreamsOf) -> None:
        self._of = chosen
        self.home = chosen.current()
        self._now = self.home
        self._block: Any = None
        # By node: the streams in which its gradients were made.
        self._made: dict[Any, dict[Any, None]] = {}
        self._used: dict[Any, None] = {}
        # What went to another stream: its memory is not for reuse before that one is done with it.
        self._kept: list[Any] = []

    def enter(self, node: Any) -> None:
        """A node is about to run: go to its stream, and wait for what was made for it elsewhere."""
        stream = self._of.of_node(node)
        if stream != self._now:
            self._block = self._of.inside(stream)
            self._block.__enter__()
            self._now = stream
            if stream not in self._used:
                self._used[stream] = None
                stream.wait_stream(self.home)  # what the backward begins with was made there
        self.arrive(node)

    def leave(self) -> None:
        """Back to the caller's stream."""
        block, self._block, self._now = self._block, None, self.home
        if block is not None:
            block.__exit__(None, None, None)

    def arrive(self, node: Any) -> None:
        """Let the present stream wait for those that have made something for a node."""
        for stream in self._made.get(node, ()):
            if stream != self._now:
                self._now.wait_stream(stream)

    def passed(self, following: Any, g: Any) -> None:
        """The node that runs has made a gradient for this one."""
        self._made.setdefault(following, {})[self._now] = None
        if self._now != (self.home if following.leaf else self._of.of_node(following)):
            self._kept.append(g)

    def join(self) -> None:
        """The backward ends: the caller waits for all streams, and what they lent each other."""
        for stream in self._used:
            self.home.wait_stream(stream)
        for stream in self._used:
            stream.wait_stream(self.home)
        self._kept.clear()
