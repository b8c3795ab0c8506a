"""What programs of optimizers and layers may call, as text: it stands in their scripts, too."""

PRELUDE = {
    "numbers": """
def numbers(seed, shape, dtype="float32", wild=""):
    import numpy
    rng = numpy.random.default_rng(seed)
    values = rng.normal(size=shape).round(2)
    if dtype.startswith("complex"):
        values = values + 1j * rng.normal(size=shape).round(2)
    values = numpy.array(values)
    if wild and values.size:
        values.reshape(-1)[rng.integers(0, values.size, 2)] = float(wild)
    return torch.tensor(values.tolist(), dtype=getattr(torch, dtype)).reshape(shape)
""",
    "weighed": """
def weighed(y):
    return torch.arange(1, y.numel() + 1).reshape(y.shape).remainder(7).sub(2).to(y.dtype)
""",
    "flat": """
def flat(gradients, inputs):
    found = [(torch.zeros_like(x) if g is None else g).reshape(-1)
             for g, x in zip(gradients, inputs)]
    return torch.cat([g.to(found[0].dtype) for g in found])
""",
    "filled": """
def filled(module, seed, dtype="float32"):
    module = module.to(getattr(torch, dtype))
    with torch.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(numbers(seed + i, tuple(p.shape), dtype))
    return module
""",
    "math()": """
def math():
    from importlib import import_module
    kernels = import_module(torch.__name__ + ".nn.attention")
    return kernels.sdpa_kernel(kernels.SDPBackend.MATH)
""",
    "small(": """
class small:  # the fast paths of ag_visual serve what has so many elements
    def __init__(self, least):
        self.least = least

    def __enter__(self):
        if torch.__name__ != "ag_visual":
            return
        from ag_visual.arrays import fast
        from ag_visual.arrays.kernels import channel_norm, lines
        from ag_visual.optim import together
        values = {(fast, "LEAST"): 1, (lines, "_LEAST"): 1, (lines, "_SHORTEST_ROW"): 1}
        values |= {(lines, "_PART_BYTES"): 512, (lines, "_SMALL_PRODUCT"): 200}
        values |= {(lines, "_SHORTEST_BLOCK"): 4, (channel_norm, "_LEAST"): 1}
        values |= {(together, "SMALL"): self.least, (together, "PART"): self.least + 8}
        self.before = {key: getattr(*key) for key in values}
        for key, value in values.items():
            setattr(*key, value)

    def __exit__(self, *error):
        for key, value in getattr(self, "before", {}).items():
            setattr(*key, value)
""",
    "reloaded": """
def reloaded(new, old):
    new.load_state_dict(old.state_dict())
    return new
""",
    "closure": """
def closure(o, params):
    def loss():
        o.zero_grad()
        # Smooth: at a kink a last digit would decide where L-BFGS goes.
        found = sum((p - 0.5).abs().square().square().sum() for p in params)
        found = found + sum(p.abs().square().add(1).sqrt().sum() for p in params)
        found.backward()
        return found
    return loss
""",
    "facts": """
def facts(o):
    def shown(v):
        if isinstance(v, torch.Tensor):
            return f"{str(v.dtype)[6:]}{list(v.shape)}"
        return f"{v:.6g}" if type(v) is float else repr(v)
    found = o.state_dict()
    state = [f"{k}: " + ", ".join(f"{name} {shown(s[name])}" for name in sorted(s))
             for k, s in sorted(found["state"].items())]
    groups = [", ".join(f"{name} {shown(g[name])}" for name in sorted(g))
              for g in found["param_groups"]]
    return "; ".join(state + groups)
""",
    "held": """
def held(o, p):
    def real(v):
        v = torch.as_tensor(v, dtype=None).detach()
        return (torch.view_as_real(v) if v.is_complex() else v).reshape(-1).to(p.real.dtype)
    state = o.state.get(p, {})
    if "old_dirs" in state:
        return real(state.get("d", 0))
    kept = [state[k] for k in sorted(state) if state[k] is not None]
    return torch.cat([real(torch.zeros(1)), *map(real, kept)])
""",
}
