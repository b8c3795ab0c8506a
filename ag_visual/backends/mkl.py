"""torch.backends.mkl: MKL is not used."""

from ag_visual.names import expose as _expose


def is_available() -> bool:
    """False: nothing is computed by MKL."""
    return False


_expose(__name__)
