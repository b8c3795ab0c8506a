"""What of a module can be saved and loaded, moved to another device, and switched as a whole."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from ag_visual import dtypes
from ag_visual.core import modes
from ag_visual.core.hooks import HookTable, RemovableHandle, register
from ag_visual.core.source import warn
from ag_visual.core.tensor import Tensor
from ag_visual.dispatch.table import functions as F
from ag_visual.layouts import memory_format
from ag_visual.nn.members import Members
from ag_visual.nn.parameter import Parameter, is_lazy

EXTRA = "_extra_state"


class _IncompatibleKeys(NamedTuple):
    """What `load_state_dict` did not find, and what it found no place for."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )


class _Problems(list[str]):
    """Error texts, and what to write if there are none at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[Callable[[], Any]] = []


class _WithModule:
    """A hook that gets the module, too; a copied module's hook gets the copy."""

    def __init__(self, hook: Callable[..., Any]) -> None:
        self.hook = hook

    def __call__(self, *args: Any) -> Any:
        return self.hook(*args)


class Saving(Members):
    """Base of Module: state dicts, devices and dtypes, training mode, gradients."""

    _version: int = 1
    _state_dict_hooks: HookTable
    _state_dict_pre_hooks: HookTable
    _load_state_dict_pre_hooks: HookTable
    _load_state_dict_post_hooks: HookTable

    # Switches --------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Set training mode here and below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode here and below: `train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Say whether gradients of the parameters are wanted."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters (or set them to zero)."""
        for p in self.parameters():
            if set_to_none:
                p._grad = None
            elif p._grad is not None:
                g = p._grad
                (g.requires_grad_(False) if g.grad_fn is None else g.detach_()).zero_()

    # Moving ----------------------------------------------------------------------------------

    @modes.without_grad
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the data of parameters and buffers by `fn` of it; Parameter objects stay."""
        for module in self.modules() if recurse else [self]:
            for p in module._parameters.values():
                if p is not None:
                    p._take_data(fn(p.data if is_lazy(p) else p.detach()))
                    if p._grad is not None:
                        p._grad = fn(p._grad)
            for name, b in module._buffers.items():
                if is_lazy(b):
                    b._take_data(fn(b.data))  # type: ignore[union-attr]
                elif b is not None:
                    module._buffers[name] = fn(b)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move parameters and buffers to a device; cast floating and complex ones to a dtype."""
        if "copy" in kwargs:
            raise RuntimeError(".to() does not accept copy argument")
        values = [*args, *kwargs.values()]
        dtype = next((v for v in values if isinstance(v, dtypes.dtype)), None)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )
        if dtype is not None and dtype.is_complex:
            warn(
                "Complex modules are a new feature under active development whose design may "
                "change, and some modules might not work as expected when using complex tensors "
                "as parameters or buffers."
            )

        def move(t: Tensor) -> Tensor:
            try:
                return moved(t)
            except NotImplementedError as error:
                if not t.is_meta:
                    raise
                raise NotImplementedError(
                    f"{error} Please use torch.nn.Module.to_empty() instead of "
                    "torch.nn.Module.to() when moving module from meta to a different device."
                ) from None

        def moved(t: Tensor) -> Tensor:
            if t.is_floating_point() or t.is_complex():
                return t.to(*args, **kwargs)  # type: ignore[attr-defined, no-any-return]
            no_device = dtypes.dtype | bool | memory_format
            device = next((v for v in values if not isinstance(v, no_device)), t.device)
            return t.to(device.device if isinstance(device, Tensor) else device)  # type: ignore[attr-defined, no-any-return]

        return self._apply(move)

    def type(self, dst_type: Any) -> Self:
        """Cast all parameters and buffers to a dtype."""
        return self._apply(lambda t: t.type(dst_type))  # type: ignore[attr-defined, no-any-return]

    def _floating_to(self, dtype: dtypes.dtype) -> Self:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)  # type: ignore[attr-defined]

    def double(self) -> Self:
        """Cast floating parameters and buffers to float64."""
        return self._floating_to(dtypes.float64)

    def float(self) -> Self:
        """Cast floating parameters and buffers to float32."""
        return self._floating_to(dtypes.float32)

    def half(self) -> Self:
        """Cast floating parameters and buffers to float16."""
        return self._floating_to(dtypes.float16)

    def bfloat16(self) -> Self:
        """Cast floating parameters and buffers to bfloat16."""
        return self._floating_to(dtypes.bfloat16)

    def cuda(self, device: Any = None) -> Self:
        """Move parameters and buffers to a GPU."""
        return self._apply(lambda t: t.cuda(device))  # type: ignore[attr-defined, no-any-return]

    def cpu(self) -> Self:
        """Move parameters and buffers to the CPU."""
        return self._apply(lambda t: t.cpu())  # type: ignore[attr-defined, no-any-return]

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move parameters and buffers to a device without their values, which are then not set."""
        return self._apply(lambda t: F["empty_like"](t, device=device), recurse)

    def share_memory(self) -> Self:
        """Move parameters and buffers to memory that processes share (`Tensor.share_memory_`)."""
        for tensor in (*self.parameters(), *self.buffers()):  # type: ignore[attr-defined]
            tensor.share_memory_()
            if tensor.grad is not None:
                tensor.grad.share_memory_()
        return self

    # Saving ----------------------------------------------------------------------------------

    def get_extra_state(self) -> Any:
        """What else `state_dict` should hold; a subclass that defines it also sets it."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called: "
            f"{type(self).__name__} must define it"
        )

    def set_extra_state(self, state: Any) -> None:
        """Take over what `get_extra_state` gave."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called: "
            f"{type(self).__name__} must define it"
        )

    def _has_extra(self) -> bool:
        return type(self).get_extra_state is not Saving.get_extra_state

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """Parameters and persistent buffers by dotted name, sharing memory.

        They are detached unless keep_vars is set.
        """
        if args:
            given = dict(zip(("destination", "prefix", "keep_vars"), args, strict=False))
            return self.state_dict(
                **{"destination": destination, "prefix": prefix, "keep_vars": keep_vars, **given}
            )
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in list(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                below = f"{prefix}{name}."
                module.state_dict(destination=destination, prefix=below, keep_vars=keep_vars)
        for hook in list(self._state_dict_hooks.values()):
            changed = hook(self, destination, prefix, metadata)
            destination = destination if changed is None else changed
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Put this module's own parameters and buffers into `destination`."""
        for name, value in self._own_state().items():
            kept = keep_vars or is_lazy(value)
            destination[prefix + name] = value if kept else value.detach()
        if self._has_extra():
            destination[prefix + EXTRA] = self.get_extra_state()

    def _own_state(self) -> dict[str, Tensor]:
        found: dict[str, Any] = dict(self._parameters)
        left_out = self._non_persistent_buffers_set
        found.update((k, b) for k, b in self._buffers.items() if k not in left_out)
        return {k: v for k, v in found.items() if v is not None}

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Take this module's own parameters and buffers from `state_dict`."""
        about = (state_dict, prefix, local_metadata, strict)
        for hook in list(self._load_state_dict_pre_hooks.values()):
            own = (self,) if isinstance(hook, _WithModule) else ()
            hook(*own, *about, missing_keys, unexpected_keys, error_msgs)
        writes = getattr(error_msgs, "writes", None)
        assign = local_metadata.get("assign_to_params_buffers", False)
        known = self._own_state()
        for name, target in known.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            value = state_dict[key]
            if not isinstance(value, Tensor):
                error_msgs.append(
                    f'While copying the parameter named "{key}", expected torch.Tensor or '
                    f"Tensor-like object from checkpoint but received {type(value)}"
                )
                continue
            if is_lazy(target) and is_lazy(value):
                continue
            if value.shape != target.shape:
                error_msgs.append(
                    f"size mismatch for {key}: copying a param with shape {value.shape} from "
                    f"checkpoint, the shape in current model is {target.shape}."
                )
                continue
            write = self._assigning if assign else self._copying
            if writes is None:
                write(name, target, value)
            else:
                writes.append(lambda w=write, n=name, t=target, v=value: w(n, t, v))
        if self._has_extra():
            if prefix + EXTRA in state_dict:
                self.set_extra_state(state_dict[prefix + EXTRA])
            elif strict:
                missing_keys.append(prefix + EXTRA)
        if strict:
            for key in state_dict:
                if not key.startswith(prefix) or (key == prefix + EXTRA and self._has_extra()):
                    continue
                head, dot, _ = key[len(prefix) :].partition(".")
                if head not in (self._modules if dot else known):
                    unexpected_keys.append(key)

    def _copying(self, name: str, target: Tensor, value: Tensor) -> None:
        target.copy_(value)  # type: ignore[attr-defined]

    def _assigning(self, name: str, target: Tensor, value: Tensor) -> None:
        if isinstance(target, Parameter) and not isinstance(value, Parameter):
            value = Parameter(value, requires_grad=target.requires_grad)
        setattr(self, name, value)

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """Take values by name; returns the missing and the unexpected keys.

        Nothing is changed when a shape differs, or with strict when a key is missing or unexpected.
        assign: the tensors of `state_dict` become the module's own, with their dtype and device.
        """
        if not hasattr(state_dict, "items"):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        problems = _Problems()
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata  # type: ignore[attr-defined]
        after: list[tuple[Any, Callable[..., Any]]] = []

        def load(module: Any, local: Any, prefix: str) -> None:
            about = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                about = {**about, "assign_to_params_buffers": True}
            # All keys count as strict here: what is missing is returned, raised or not.
            module._load_from_state_dict(local, prefix, about, True, missing, unexpected, problems)
            for name, child in module._modules.items():
                if child is not None:
                    below = f"{prefix}{name}."
                    load(child, {k: v for k, v in local.items() if k.startswith(below)}, below)
            after.extend((module, hook) for hook in module._load_state_dict_post_hooks.values())

        load(self, state_dict, "")
        texts = _key_texts(missing, unexpected) if strict else []
        if not texts and not problems:
            for write in problems.writes:
                modes.in_grad_mode(False, write)
        result = _IncompatibleKeys(missing, unexpected)
        for module, hook in after:
            if hook(module, result) is not None:
                raise AssertionError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not expected "
                    "to return new values, if incompatible_keys need to be modified, it should be "
                    "done inplace."
                )
        texts = (_key_texts(missing, unexpected) if strict else []) + problems
        if texts:
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t"
                + "\n\t".join(texts)
            )
        return result

    # Hooks -----------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict`."""
        return register(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after `state_dict`."""
        return register(self._state_dict_hooks, hook)

    _register_state_dict_hook = register_state_dict_post_hook

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a hook before loading.

        hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
        error_msgs)
        """
        return register(self._load_state_dict_pre_hooks, _WithModule(hook))

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        if with_module:
            return self.register_load_state_dict_pre_hook(hook)
        return register(self._load_state_dict_pre_hooks, hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after loading; it may change them in place."""
        return register(self._load_state_dict_post_hooks, hook)


def _key_texts(missing: list[str], unexpected: list[str]) -> list[str]:
    texts = []
    for kind, keys in (("Unexpected", unexpected), ("Missing", missing)):
        if keys:
            names = ", ".join(f'"{key}"' for key in keys)
            texts.insert(0, f"{kind} key(s) in state_dict: {names}. ")
    return texts
