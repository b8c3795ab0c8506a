"""What a command says when it cannot go on."""

from __future__ import annotations


class CommandError(Exception):
    """A command cannot go on; the message is all that the person needs."""
