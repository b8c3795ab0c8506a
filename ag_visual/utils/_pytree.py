"""Trees of tuples, lists and dicts: taken apart into leaves and put together again.

The names are those of torch.utils._pytree, which programs use, too.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class TreeSpec:
    """The structure of a tree: the type of a node, what it needs beside its children, these."""

    __slots__ = ("children_specs", "context", "num_leaves", "type")

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]) -> None:
        self.type = type
        self.context = context
        self.children_specs = children_specs
        self.num_leaves = 1 if type is None else sum([c.num_leaves for c in children_specs])

    def is_leaf(self) -> bool:
        """Whether it is one leaf."""
        return self.type is None

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TreeSpec)
            and self.type is other.type
            and self.context == other.context
            and self.children_specs == other.children_specs
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        inner = ", ".join(map(repr, self.children_specs))
        return f"TreeSpec({self.type.__name__}, {self.context}, [{inner}])"


PyTree = Any
_LEAF = TreeSpec(None, None, [])
_KINDS = frozenset((tuple, list, dict, OrderedDict, defaultdict))


def _is_namedtuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(type(value), "_fields")


def _children(tree: Any) -> tuple[list[Any], Any] | None:
    """The children of a node and its context; None for a leaf."""
    kind = type(tree)
    if kind not in _KINDS:
        return (list(tree), kind) if _is_namedtuple(tree) else None
    if kind is tuple or kind is list:
        return list(tree), None
    if kind is defaultdict:
        return list(tree.values()), [tree.default_factory, list(tree)]
    return list(tree.values()), list(tree)


def tree_flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, and its structure."""
    leaves: list[Any] = []
    return leaves, _flattened(tree, leaves, is_leaf)


def _flattened(tree: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None) -> TreeSpec:
    found = None if is_leaf is not None and is_leaf(tree) else _children(tree)
    if found is None:
        leaves.append(tree)
        return _LEAF
    children, context = found
    return TreeSpec(type(tree), context, [_flattened(c, leaves, is_leaf) for c in children])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of a structure with these leaves."""
    given = list(leaves)
    if len(given) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(given)} but the spec "
            f"refers to a pytree that holds {treespec.num_leaves} items ({treespec})."
        )
    return given[0] if treespec.type is None else _built(iter(given), treespec)


def _built(leaves: Any, spec: TreeSpec) -> Any:
    if spec.type is None:
        return next(leaves)
    children = [next(leaves) if c.type is None else _built(leaves, c) for c in spec.children_specs]
    if spec.type is tuple:
        return tuple(children)
    if spec.type is defaultdict:
        factory, keys = spec.context
        return defaultdict(factory, zip(keys, children, strict=True))
    if spec.type in (dict, OrderedDict):
        return spec.type(zip(spec.context, children, strict=True))
    if spec.type is list:
        return children
    # A namedtuple; those of an op's results are made of their fields, too.
    return spec.type(*children)


def tree_map(
    func: Callable[..., Any],
    tree: Any,
    *rests: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """A tree of what `func` makes of each leaf (and of those in the same places of `rests`)."""
    if not rests and (_children(tree) is None or (is_leaf is not None and is_leaf(tree))):
        return func(tree)
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [_up_to(spec, rest) for rest in rests]
    return tree_unflatten([func(*each) for each in zip(leaves, *others, strict=True)], spec)


def _up_to(spec: TreeSpec, tree: Any) -> list[Any]:
    """The subtrees of a tree where another's structure has its leaves."""
    if spec.type is None:
        return [tree]
    found = _children(tree)
    if found is None or type(tree) is not spec.type or len(found[0]) != len(spec.children_specs):
        raise ValueError(f"a tree of another structure: expected {spec}, but got {tree!r}")
    parts = zip(spec.children_specs, found[0], strict=True)
    return [leaf for child, part in parts for leaf in _up_to(child, part)]


def tree_map_only(kind: Any, func: Callable[[Any], Any], tree: Any) -> Any:
    """`tree_map` of the leaves of some type(s); others stay."""
    return tree_map(lambda x: func(x) if isinstance(x, kind) else x, tree)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a tree."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def broadcast_prefix(
    prefix: Any, spec: TreeSpec, is_leaf: Callable[[Any], bool]
) -> list[Any] | None:
    """The entry of a prefix of a structure for each of its leaves; None where it is none."""
    if is_leaf(prefix):
        return [prefix] * spec.num_leaves
    found = _children(prefix)
    if found is None or spec.type is not type(prefix) or spec.context != found[1]:
        return None
    if len(found[0]) != len(spec.children_specs):
        return None
    entries: list[Any] = []
    for part, child in zip(found[0], spec.children_specs, strict=True):
        below = broadcast_prefix(part, child, is_leaf)
        if below is None:
            return None
        entries += below
    return entries


class NodeDef(NamedTuple):
    """How a kind of node is taken apart, into children and context, and put together again."""

    type: Any
    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]


def _definition(kind: Any) -> NodeDef:
    def together(children: Iterable[Any], context: Any) -> Any:
        each = list(children)
        made = context if kind is namedtuple else kind
        return _built(iter(each), TreeSpec(made, context, [_LEAF] * len(each)))

    return NodeDef(kind, lambda tree: _children(tree) or ([], None), together)


SUPPORTED_NODES = {kind: _definition(kind) for kind in (*_KINDS, namedtuple)}
"""The kinds of nodes; all else is a leaf."""


def _get_node_type(tree: Any) -> Any:
    """The key in `SUPPORTED_NODES` of a node; the type of a leaf."""
    return namedtuple if _is_namedtuple(tree) else type(tree)


def LeafSpec() -> TreeSpec:
    """The structure of a leaf."""
    return _LEAF
