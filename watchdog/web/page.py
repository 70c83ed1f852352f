"""The HTML page at `/`, for people: the state of each cluster and its findings. Programs use `/api/v1/findings`."""

from dataclasses import dataclass, field

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from watchdog.core.observed.activity import ActivityKind
from watchdog.core.present.escapes import printable
from watchdog.core.present.look import Look, Unread
from watchdog.core.present.phrases import (
    arming_words,
    breaker_words,
    failure_words,
    gravest_first,
    ignored_holders,
    limit_words,
    nothing_found,
    span,
    untested_words,
    verdict_words,
)
from watchdog.version import own_version

MAX_FINDINGS = 200


@dataclass(slots=True)
class Page:
    """Renders the page from the newest state of each cluster."""

    _environment: Environment = field(init=False)

    def __post_init__(self) -> None:
        """Load the template."""
        self._environment = Environment(
            loader=PackageLoader("watchdog.web"),
            autoescape=select_autoescape(default=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_shown,
        )
        self._environment.filters["span"] = span

    def render(self, states: list[tuple[str, Look | Unread | None]], *, judges: bool) -> str:
        """The page. `judges` is False if no budget is configured, because nothing can be found then."""
        template = self._environment.get_template("page.html")
        return template.render(
            version=own_version(),
            judges=judges,
            most=MAX_FINDINGS,
            clusters=[_cluster(*each, judges=judges) for each in states],
        )


def _shown(value: object) -> object:
    """Called with the value of each expression of the template. A value that is marked as escaped stays so."""
    return type(value)(printable(value)) if isinstance(value, str) else value


def _cluster(server: str, state: Look | Unread | None, *, judges: bool) -> dict[str, object]:
    match state:
        case None:
            return {"server": server, "read": None}
        case Unread():
            return {"server": server, "read": False, "reason": state.reason, "detail": state.detail}
    cases = state.judgement.cases
    return {
        "server": server,
        "read": True,
        "complete": state.complete,
        "hidden": state.census.hidden,
        "version": state.census.version,
        "standby": state.snapshot.in_recovery,
        "interval": state.interval,
        "at": state.snapshot.at,
        "running": sum(case.activity is ActivityKind.RUNNING for case in cases),
        "holding": sum(case.activity is ActivityKind.HOLDING for case in cases),
        "unjudged": {reason: count for reason, count in state.judgement.unjudged.items() if count},
        "verdicts": gravest_first(state)[:MAX_FINDINGS],
        "more": max(0, len(state.decisions.verdicts) - MAX_FINDINGS),
        "words": verdict_words,
        "failures": [*failure_words(state), *breaker_words(state), *ignored_holders(state)],
        "untested": untested_words(state),
        "armed": not state.disarmed,
        "arming": arming_words(state),
        "silence": nothing_found(state, judges=judges),
        "limits": limit_words(state),
        "tracking_is_off": state.census.tracking_is_off,
    }
