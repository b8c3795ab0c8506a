"""All kinds of work, by name."""

from __future__ import annotations

from .bridged import TorchAside, TorchPaused, TorchWatched
from .observed import (
    EmitItt,
    EmitNvtx,
    Magic,
    Newest,
    Paused,
    Profiled,
    Recording,
    Scheduled,
    Watched,
)
from .work import (
    Accumulate,
    Chain,
    CreateGraph,
    Decorated,
    Deep,
    Hooks,
    Inference,
    InferenceInside,
    Loading,
    Modes,
    Nested,
    NNStep,
    PackHooks,
    RetainGrad,
    Saving,
    SetGrad,
    Tiny,
    Work,
    Writes,
)

KINDS: dict[str, type[Work]] = {
    kind.__name__.lower(): kind
    for kind in (
        *(Tiny, Chain, NNStep, Hooks, RetainGrad, CreateGraph, Nested, Deep, PackHooks),
        *(Accumulate, Writes, Decorated, Saving, Loading, InferenceInside),
        *(Recording, Watched, Newest, Paused),
        *(Profiled, Scheduled, Magic, EmitNvtx, EmitItt),
        *(TorchWatched, TorchAside, TorchPaused),
    )
}
IN_TURNS: dict[str, type[Work]] = {"modes": Modes, "setgrad": SetGrad, "inference": Inference}
"""Modes that `with` enters, whose end a signal can prevent: in torch, too."""

IN_CI = {
    "tensors": [
        *("tiny", "chain", "nnstep", "hooks", "retaingrad", "creategraph", "nested", "deep"),
        *("packhooks", "accumulate", "writes", "decorated", "saving", "inferenceinside"),
    ],
    "recorded": ["recording", "watched", "newest", "paused"],
    "profiled": ["profiled", "scheduled", "emititt", "emitnvtx"],
    "bridged": ["torchwatched", "torchaside"],
}
"""Kinds whose places are interrupted once each; the machine's command line runs all of them."""

ELSEWHERE = {"recorded": ["nnstep"], "profiled": ["nnstep"], "bridged": ["recording"]}
"""Kinds of other groups, whose places are interrupted there."""
