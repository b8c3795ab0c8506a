"""Requests of pages: checked against the schema, answered now or by the thread that owns the graph.

`handle` may be called from any thread and returns at once; the reply comes through `reply`,
perhaps from another thread.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ag_visual.events.live import LiveNode
from ag_visual.observe.export.bundle import bundle_text
from ag_visual.observe.formulas.card_numbers import kept_gradients, numbers
from ag_visual.observe.formulas.cards import card
from ag_visual.observe.formulas.local import runs
from ag_visual.observe.record.details import (
    all_hooks,
    node_details,
    recorded_card,
    recorded_details,
)
from ag_visual.observe.record.held_values import NotKeptError, values_of
from ag_visual.observe.record.scalars import arrived_at, beyond
from ag_visual.observe.record.summaries import DEFAULT_LIMIT
from ag_visual.observe.wire import schema
from ag_visual.observe.wire.check import check_fields
from ag_visual.observe.wire.text import fit, fit_all
from ag_visual.session import notebooks
from ag_visual.session.node_check import ELEMENTS, check_node, in_own_thread
from ag_visual.session.session import Session, package_version

Reply = Callable[[dict[str, Any]], None]

BUSY: Final = (
    "busy: the kernel is inside one computation that cannot be looked into; ask again when a "
    "backward runs or the cell has ended"
)


_PAGE: Final = {"page?": "string"}


def handle(session: Session, content: Any, reply: Reply) -> None:
    """Answer one request (`content` as it came). Never raises: every failure is a reply."""
    number = content.get("id") if isinstance(content, dict) else None

    def send(result: Any) -> None:
        # The renderer's script is ours and whole; anything else may hold text of a program.
        fitted = result if name == "bundle" else fit_all(result)
        reply({"id": number, "ok": True, "result": fitted})

    def fail(error: BaseException | str) -> None:
        text = fit(str(error) or type(error).__name__)
        reply({"id": number, "ok": False, "error": text})

    if not isinstance(content, dict):
        return fail("a request should be an object with a command")
    name = content.get("command")
    if not isinstance(name, str) or name not in schema.COMMANDS:
        return fail(f"unknown command {name!r}; known are {', '.join(schema.COMMANDS)}")
    try:
        check_fields(_PAGE | schema.COMMANDS[name].arguments, content, name)
    except ValueError as error:
        return fail(error)
    for page in session.pages_named(content.get("page")):
        page.heard_now()
    if name not in _ORDERS:

        def answer(busy: bool) -> None:
            try:
                result = _answered(name, session, content, busy)
            except KeyboardInterrupt:
                fail("interrupted")
                raise
            except Exception as error:
                fail(error)
            else:
                send(result)

        return session.ask(answer)
    try:
        result = _ORDERS[name](session, content)
    except Exception as error:
        return fail(error)
    return send(result)


def _answered(name: str, session: Session, args: dict[str, Any], busy: bool) -> Any:
    """The answer to a question; busy: from what is known without the graph, where that will do."""
    if name in _KNOWN_QUESTIONS:
        return _KNOWN_QUESTIONS[name](session, args, busy)
    if busy:
        raise RuntimeError(BUSY)
    return _QUESTIONS[name](session, args)


# Orders: answered at once, in the thread that brings them ---------------------------------------


def _hello(session: Session, args: dict[str, Any]) -> Any:
    pages = session.pages_named(args.get("page"))
    return {
        "v": schema.VERSION,
        "session": session.id,
        "epoch": max((page.epoch for page in pages), default=0),
        "python": platform.python_version(),
        "package_version": package_version(),
        "state": session.state(),
        "control": session.control,
    }


def _resync(session: Session, args: dict[str, Any]) -> Any:
    for page in session.pages_named(args.get("page")):
        page.ask_restart()
    return _changed(session)


def _ack(session: Session, args: dict[str, Any]) -> None:
    behind = False
    for page in session.pages_named(args.get("page")):
        behind = behind or page.window_full
        page.acknowledge(int(args["batch"]))
    if behind:
        session.hurry()


def _record(session: Session, args: dict[str, Any]) -> Any:
    session.message = ""
    if args["on"]:
        session.start(args.get("scope", "block"), int(args.get("every", 1)))
    else:
        session.recorder.stop()
    return _changed(session)


def _watch(session: Session, args: dict[str, Any]) -> Any:
    session.watch_newest(bool(args["newest"]))
    return session.state()


def _pause(session: Session, args: dict[str, Any]) -> Any:
    session.message = ""
    if not session.recorder.on:
        session.start("once")
    session.gate.ask_pause()
    return _changed(session)


def _step(session: Session, args: dict[str, Any]) -> Any:
    session.message = ""
    session.gate.step()
    return session.state()


def _continue(session: Session, args: dict[str, Any]) -> Any:
    session.message = ""
    session.gate.go_on()
    return _changed(session)


def _run_to(session: Session, args: dict[str, Any]) -> Any:
    session.gate.run_to(int(args["seq"]))
    return _changed(session)


def _step_past(session: Session, args: dict[str, Any]) -> Any:
    session.message = ""
    session.gate.step_past(int(args["first"]), int(args["last"]))
    return session.state()


def _step_to_problem(session: Session, args: dict[str, Any]) -> Any:
    session.message = ""
    session.gate.step_to_problem()
    return session.state()


_CRITERIA: Final = ("seq", "name", "line", "place", "above", "nonfinite", "shape")


def _breakpoint(session: Session, args: dict[str, Any]) -> Any:
    if not args["on"] and "number" in args:
        session.gate.remove(id=int(args["number"]))
        return _changed(session)
    given = {key: args[key] for key in _CRITERIA if args.get(key) not in (None, False)}
    if not given.keys() - {"place"}:
        raise ValueError(f"breakpoint needs one of {', '.join(_CRITERIA)}")
    change = session.gate.add if args["on"] else session.gate.remove
    change(**{key: int(v) if key in ("seq", "line") else v for key, v in given.items()})
    return _changed(session)


def _profile(session: Session, args: dict[str, Any]) -> Any:
    live, number = session.profile, int(args["number"])
    if live is None or live.number != number:
        raise ValueError(f"profile {number} is not here any more: another one began")
    piece = live.piece(int(args["since"]))
    paused = session.gate.paused
    row = None if paused is None else live.thread(paused.thread)
    if paused is not None and row is not None and not piece["done"]:
        since = max(0, paused.since - live.start)
        piece["pauses"] = [*piece["pauses"], [since, piece["now"], row]]
    return piece


def _course(session: Session, args: dict[str, Any]) -> Any:
    lessons = [dict(lesson) for lesson in notebooks.course()]
    name = args.get("open")
    if name is not None:
        if all(name != lesson["name"] for lesson in lessons):
            raise ValueError(f"the course has no notebook {name!r}")
        notebooks.copy_course(Path.cwd())
    return lessons


def _run(session: Session, args: dict[str, Any]) -> Any:
    return session.runs.find(int(args["number"])).record


def _clear(session: Session, args: dict[str, Any]) -> Any:
    session.runs.clear()
    session.clear()
    return session.state()


def _changed(session: Session) -> Any:
    session.changed()
    return session.state()


_ORDERS: Final[dict[str, Callable[[Session, dict[str, Any]], Any]]] = {
    "hello": _hello,
    "resync": _resync,
    "ack": _ack,
    "record": _record,
    "watch": _watch,
    "pause": _pause,
    "step": _step,
    "continue": _continue,
    "run_to": _run_to,
    "step_past": _step_past,
    "step_to_problem": _step_to_problem,
    "breakpoint": _breakpoint,
    "clear": _clear,
    "course": _course,
    "profile": _profile,
    "run": _run,
    "bundle": lambda session, args: bundle_text(),
}


# Questions: answered where the graph stands still -------------------------------------------------


def _node(session: Session, args: dict[str, Any], busy: bool) -> Any:
    seq = int(args["seq"])
    session.recorder.drain()
    if busy:
        return recorded_details(session.recorder, seq)
    return node_details(session.recorder, seq, session.scopes())


def _hooks(session: Session, args: dict[str, Any]) -> Any:
    session.recorder.drain()
    return all_hooks(session.recorder)


def _values(session: Session, args: dict[str, Any]) -> Any:
    seq, which = int(args["seq"]), args["which"]
    limit = int(args.get("limit", DEFAULT_LIMIT))
    paused = session.gate.paused
    arrived: list[Any] = []
    if which.partition("@")[0] == "grad" and paused is not None and paused.seq == seq:
        arrived = [g for g in paused.grads if g is not None]
        if not arrived:
            raise NotKeptError("no gradient arrived at this node")
    session.recorder.drain()
    return values_of(session.recorder, seq, which, limit, arrived=arrived)


def _weights(session: Session, args: dict[str, Any]) -> Any:
    return session.recorder.parameters.weights()


def _jacobians(session: Session, args: dict[str, Any], busy: bool) -> Any:
    return session.jacobians.found


def _card(session: Session, args: dict[str, Any], busy: bool) -> Any:
    session.recorder.drain()
    seq = int(args["seq"])
    node = session.recorder.node(seq)
    if node is not None and not busy:
        return in_own_thread(lambda stopped: card(node))
    return recorded_card(session.recorder, seq)


def _numbers(session: Session, args: dict[str, Any]) -> Any:
    node = _living(session, int(args["seq"]))
    grads, source = _arriving(session, node)
    at = args.get("at")
    place = None if at is None else int(at)
    return in_own_thread(
        lambda stopped: numbers(node, grads, input=args.get("input"), at=place, source=source)
    )


def _arriving(session: Session, node: LiveNode) -> tuple[Any, str]:
    """The gradients that arrive at a node, as far as somebody holds them, and who does."""
    paused = session.gate.paused
    if paused is not None and paused.seq == node.seq:
        if any(g is not None for g in paused.grads):
            return paused.grads, "waits"
        raise NotKeptError("no gradient arrived at this node")
    return kept_gradients(node)


def _living(session: Session, seq: int) -> LiveNode:
    session.recorder.drain()
    node = session.recorder.node(seq)
    if node is None:
        raise NotKeptError(
            f"node {seq} is gone, and its values with it: pause before they are freed"
        )
    return node


def _no_rule(node: LiveNode) -> NotKeptError:
    return NotKeptError(f"{node.name()} has no rule of this package: it is not run to look")


def _check(session: Session, args: dict[str, Any]) -> Any:
    node = _living(session, int(args["seq"]))
    if not runs(node):
        raise _no_rule(node)
    return check_node(node, elements=int(args.get("elements", ELEMENTS))).json()


def _local(session: Session, args: dict[str, Any], busy: bool) -> Any:
    seq = int(args["seq"])
    known = session.numbers.found.get(seq)
    paused = session.gate.paused
    here = paused if paused is not None and paused.seq == seq else None
    if known is not None and not known["why"]:
        if here is not None:  # perhaps the reader changed it meanwhile
            return arrived_at(known, here.grads)
        return known
    if busy:
        raise RuntimeError(BUSY)
    session.recorder.drain()
    node = session.recorder.node(seq)
    if node is None:
        raise NotKeptError(f"node {seq} is gone, and its numbers with it")
    if not runs(node):
        raise _no_rule(node)
    return beyond(node, [None] * len(node.output_meta) if here is None else here.grads)


def _scalars(session: Session, args: dict[str, Any]) -> Any:
    session.recorder.drain()
    session.numbers.asked = True
    found = session.numbers.graph(
        [int(seq) for seq in args["seqs"]], session.recorder, session.scopes()
    )
    paused = session.gate.paused
    if paused is None:
        return found
    nodes = [
        arrived_at(one, paused.grads) if one["seq"] == paused.seq else one for one in found["nodes"]
    ]
    return found | {"nodes": nodes}


def _edit(session: Session, args: dict[str, Any]) -> Any:
    at = args.get("at")
    session.gate.edit(args["how"], args.get("value"), at=None if at is None else int(at))
    return session.state()


def _export(session: Session, args: dict[str, Any]) -> Any:
    path = session.export(values=args["values"], source=args["source"])
    return {"html": str(path)}


_KNOWN_QUESTIONS: Final[dict[str, Callable[[Session, dict[str, Any], bool], Any]]] = {
    "node": _node,
    "card": _card,
    "jacobians": _jacobians,
    "local": _local,
}
_QUESTIONS: Final[dict[str, Callable[[Session, dict[str, Any]], Any]]] = {
    "hooks": _hooks,
    "values": _values,
    "weights": _weights,
    "numbers": _numbers,
    "check": _check,
    "edit": _edit,
    "scalars": _scalars,
    "export": _export,
}
