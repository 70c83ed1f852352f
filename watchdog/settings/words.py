"""The words between which a configuration chooses, taken from the core's enums: a new member stands nowhere else."""

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from watchdog.core.acting.rules import Action
from watchdog.core.judging.evidence import ACTIONABLE, Evidence
from watchdog.core.observed.activity import Clock

if TYPE_CHECKING:  # a type checker knows no literals that are made at run time
    FindingWord = str
    EvidenceWord = str
    ActionWord = str
    ClockWord = str
else:

    def _literal(members: Iterable[StrEnum]) -> object:
        return Literal[tuple(str(each) for each in members)]

    FindingWord = _literal(ACTIONABLE)
    EvidenceWord = _literal(Evidence)
    ActionWord = _literal(Action)
    ClockWord = _literal(Clock)
