"""The words that a configuration may use, taken from the core's enums, so that a new member is added in one place."""

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from watchdog.core.acting.rules import Action
from watchdog.core.judging.evidence import ACTIONABLE, Evidence
from watchdog.core.observed.activity import Clock

if TYPE_CHECKING:  # because a type checker does not know literals that are created at run time
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
