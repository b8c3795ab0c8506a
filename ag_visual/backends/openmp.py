"""torch.backends.openmp: OpenMP is not used."""

from ag_visual.names import expose as _expose


def is_available() -> bool:
    """False: nothing is computed by OpenMP."""
    return False


_expose(__name__)
