"""torch._subclasses: of the tensors that compilers trace with, there are none."""
