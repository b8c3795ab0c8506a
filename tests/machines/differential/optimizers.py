"""Random programs of optimizers: groups, options, kinds of gradients, states saved and loaded."""

from __future__ import annotations

from typing import Any

from .writer import Writer

DECAY = {"weight_decay": [0, 0.1]}
LR = {"lr": [0.1, 0.01, 1e-3]}
BETAS = {"betas": ["(0.9, 0.999)", "(0.5, 0.6)", "(0., 0.9)"], "eps": [1e-8, 1e-3]}
RULES: dict[str, dict[str, list[Any]]] = {
    "SGD": {
        **(LR | DECAY),
        "momentum": [0, 0.9, 0.5],
        "dampening": [0, 0.3],
        "nesterov": [False, True],
    },
    "Adam": {**(LR | DECAY | BETAS), "amsgrad": [False, True]},
    "AdamW": {**(LR | DECAY | BETAS), "amsgrad": [False, True]},
    "NAdam": {
        **(LR | DECAY | BETAS),
        "momentum_decay": [0.004, 0.1],
        "decoupled_weight_decay": [False, True],
    },
    "RAdam": {**(LR | DECAY | BETAS), "decoupled_weight_decay": [False, True]},
    "Adamax": LR | DECAY | BETAS,
    "Adagrad": {**(LR | DECAY), "lr_decay": [0, 0.1], "initial_accumulator_value": [0, 0.2]},
    "Adadelta": {**(LR | DECAY), "rho": [0.9, 0.7], "eps": [1e-6, 1e-3]},
    "RMSprop": {
        **(LR | DECAY),
        "alpha": [0.99, 0.5],
        "momentum": [0, 0.9],
        "centered": [False, True],
    },
    "ASGD": {**(LR | DECAY), "lambd": [1e-4, 0.1], "alpha": [0.75], "t0": ["1e6", 1]},
    "Rprop": {**LR, "etas": ["(0.5, 1.2)", "(0.3, 1.5)"], "step_sizes": ["(1e-6, 50)"]},
    "LBFGS": {
        "lr": [1, 0.5],
        "max_iter": [3],
        "history_size": [100, 2],
        "line_search_fn": [None, "'strong_wolfe'"],
    },
}
SHAPES = [(), (1,), (3,), (7,), (0,), (2, 3), (3, 2), (2, 1, 3), (2, 0), (6, 6), (40,)]
DTYPES = ["float32"] * 4 + ["float64"] * 3 + ["float16", "bfloat16", "complex64"]
MADE = ["", "", "", ".t()", "[::2]", ".unsqueeze(0)", ".flip(0)"]
HOOKS = [
    "{o}.register_step_pre_hook(lambda o, args, kwargs: None)",
    "{o}.register_step_post_hook(lambda o, args, kwargs: o.zero_grad())",
]


def optimizers(w: Writer) -> None:
    """Parameters in groups, some steps, and the state after them."""
    name = w.pick(*RULES)
    mode = w.pick("", "small(24)")
    dtype = "" if w.maybe(0.15) else w.pick(*DTYPES)
    dtype = "float64" if name == "LBFGS" else dtype  # elsewhere its cubics have no digits left
    params = [parameter(w, dtype or w.pick(*DTYPES)) for _ in range(w.size(1, 4))]
    groups = "[" + ", ".join(params) + "]"
    if len(params) > 1 and name != "LBFGS" and w.maybe(0.4):
        own = w.given(0.7, **LR, **DECAY)
        first, rest = f"{{'params': [{params[0]}]}}", ", ".join(params[1:])
        groups = f"[{first}, {{'params': [{rest}], **dict({own})}}]"
    options = chosen(w, name, dtype)
    make = "torch.optim.{rule}({groups}{options})", name, groups, options
    (o,) = w.add(*make, letters="o", mode=mode)
    for _ in range(w.size(1, 5)):
        action(w, o, params, dtype, make)
        if name == "LBFGS" or (dtype in ("float32", "float64") and w.maybe(0.15)):
            w.add("{o}.step(closure({o}, [{params}]))", o, o, ", ".join(params), mode=mode)
        else:
            for p in params:
                gradient(w, p, options)
            w.do("{o}.step()", o, mode=mode)
        for p in params:
            w.add("{p}.detach().clone()", p)
    if name != "LBFGS":  # whose state is its own affair
        w.add("facts({o})", o, letters="s")
    for p in params:
        w.add("held({o}, {p})", o, p)


def chosen(w: Writer, name: str, dtype: str) -> str:
    """Options of a rule."""
    options = w.given(0.4, **RULES[name])
    if name != "LBFGS":
        more = w.given(0.25, maximize=[True, False])
        foreach = w.pick("", "foreach=True", "foreach=False", "foreach=None")
        if foreach == "foreach=True" and (name == "ASGD" or dtype in ("", "float16")):
            foreach = ""  # torch's takes its rates to 32 bits, its `eps` to 16
        rare = "" if "lr=" in options else w.given(0.04, lr=["torch.tensor(0.1)"])
        options = ", ".join(filter(None, (options, more, foreach, rare)))
    return f", {options}" if options else ""


def parameter(w: Writer, dtype: str) -> str:
    made = w.pick(*MADE)
    shape = w.pick(*(s for s in SHAPES if made in ("", ".unsqueeze(0)") or len(s) in (1, 2)))
    made = "" if made == ".t()" and len(shape) != 2 else made
    form = "numbers({number}, {size}, {dtype}){made}.requires_grad_()"
    if w.maybe(0.3):
        form = "torch.nn.Parameter(numbers({number}, {size}, {dtype}){made})"
    return w.add(form, w.size(0, 99), shape, repr(dtype), made, letters="p")[0]


def gradient(w: Writer, p: str, options: str) -> None:
    """A gradient, or none, of a kind.

    (None that the decay of a parameter cancels: what is left of them would have no digits.)
    """
    wild = f", wild={w.pick('inf', '-inf', 'nan')!r}" if w.maybe(0.06) else ""
    form = "{p}.grad = numbers({number}, tuple({p}.shape), str({p}.dtype)[6:]{wild}).mul(1.013)"
    fills = [p, w.size(0, 99), p, p, wild]
    kind = w.random.random()
    if kind < 0.1:
        form, fills = "{p}.grad = None", [p]
    elif kind < 0.15:
        form, fills = "{p}.grad = torch.zeros_like({p})", [p, p]
    elif kind < 0.25:
        form = form.replace("{p}.shape", "{p}.mT.shape") + ".mT"
    elif kind < 0.3 and "foreach=True" not in options:  # torch may write into gradients there
        form, fills = "{p}.grad = torch.ones((), dtype={p}.dtype).expand({p}.shape)", [p, p, p]
    w.do(form, *fills)


def action(w: Writer, o: str, params: list[str], dtype: str, make: tuple[str, ...]) -> None:
    """What may happen between two steps."""
    kind = w.random.random()
    if kind < 0.1:
        w.do("{o}.zero_grad({options})", o, w.pick("", "set_to_none=False"))
    elif kind < 0.2:
        w.do("{o}.param_groups[0]['lr'] = {number}", o, w.pick(0.05, 0.01, 1.0))
    elif kind < 0.35:
        form = make[0].replace("torch.optim", "reloaded(torch.optim") + ", {o})"
        w.add(form, *make[1:], o, targets=(o,))
    elif kind < 0.4:
        w.do("{o}.load_state_dict({o}.state_dict())", o, o)
    elif kind < 0.45:
        p = parameter(w, dtype or w.pick(*DTYPES))
        params.append(p)
        w.do("{o}.add_param_group(dict(params=[{p}]))", o, p)
    elif kind < 0.5:
        w.do(w.pick(*HOOKS), o)
