"""torch.backends.mps: Metal is not used."""

from ag_visual.names import expose as _expose


def is_available() -> bool:
    """False: nothing is computed by Metal."""
    return False


def is_built() -> bool:
    """False: nothing is computed by Metal."""
    return False


_expose(__name__)
