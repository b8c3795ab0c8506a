"""torch.backends.cpu: what the processor can do."""

from ag_visual.names import expose as _expose


def get_cpu_capability() -> str:
    """The vector instructions that NumPy uses: 'AVX512', 'AVX2' or 'DEFAULT'."""
    from numpy._core._multiarray_umath import __cpu_features__ as has

    return next((n for n, f in (("AVX512", "AVX512F"), ("AVX2", "AVX2")) if has.get(f)), "DEFAULT")


_expose(__name__)
