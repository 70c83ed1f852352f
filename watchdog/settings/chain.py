"""The section `chain` about the caller chain. Only `pgwatchdog chain` uses it. The daemon does not."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from watchdog.core.chain.chain import MAX_COPIES, Chain, Layer
from watchdog.core.chain.layers import KNOWN, Known
from watchdog.settings.durations import Duration, Grace
from watchdog.settings.model import Model

MAX_ATTEMPTS = 1000

MAX_LAYERS = 20
"""Upper bound of the layers of a chain. It bounds the depth and the time of the computation."""

Kind = Literal["boto3-legacy", "boto3-standard", "step-functions", "lambda-async", "kubernetes-job", "celery-retry"]


class LayerSection(Model):
    """One layer above the database. Its kind gives the defaults; without a kind it is one attempt without a timeout."""

    name: str = Field(min_length=1, max_length=40, description="its name in what is printed")
    kind: Kind | None = Field(default=None, description="a common layer whose defaults are known")
    attempts: int | None = Field(
        default=None, ge=1, le=MAX_ATTEMPTS, description="how often it tries the layer below, the first included"
    )
    retries: int | None = Field(
        default=None, ge=0, lt=MAX_ATTEMPTS, description="instead of attempts, where retries are counted"
    )
    timeout: Duration | None = Field(default=None, description="how long it waits for one attempt")
    lifetime: Duration | None = Field(default=None, description="when its platform ends it, whatever it does")
    pause: Grace | None = Field(default=None, description="before its second attempt")
    backoff: Annotated[float, Field(ge=1, le=100)] | None = Field(
        default=None, description="by what each further pause is longer than the one before"
    )
    hands_down: bool = Field(
        default=False, description="its deadline holds below: what it waits for ends when it stops waiting"
    )
    asynchronous: bool | None = Field(default=None, description="its caller does not wait for it")

    @field_validator("retries")
    @classmethod
    def _is_the_only_count(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and info.data.get("attempts") is not None:
            raise PydanticCustomError("retries", "give attempts or retries, not both: attempts are retries + 1")
        return value


class ChainSection(Model):
    """The layers above the database, outermost first, and the query at the end of them."""

    work: Duration = Field(description="how long the query takes alone")
    statement_timeout: Duration | None = Field(
        default=None, description="what the server ends the query by; null: nothing"
    )
    period: Duration | None = Field(default=None, description="time between two runs, for (R + 1)·rho")
    layers: list[LayerSection] = Field(description="the layers, outermost first")

    @field_validator("layers")
    @classmethod
    def _can_be_played(cls, value: list[LayerSection]) -> list[LayerSection]:
        if not value:
            raise PydanticCustomError("layers", "is empty: name at least one layer, the outermost first")
        if len(value) > MAX_LAYERS:
            many = f"has {len(value)} layers; up to {MAX_LAYERS} are played"
            raise PydanticCustomError("layers", "{many}", {"many": many})
        names = [each.name for each in value]
        twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
        if twice is not None:
            raise PydanticCustomError("layers", "two layers are called {name}", {"name": repr(twice)})
        product = _chain(value, work=timedelta(0)).product
        if product > MAX_COPIES:
            most = f"the attempts multiply to {product} copies of one run; up to {MAX_COPIES} are played"
            raise PydanticCustomError("layers", "{most}", {"most": most})
        return value


def chain_of(section: ChainSection) -> Chain:
    """The section as the core's `Chain`."""
    return _chain(section.layers, work=section.work, statement_timeout=section.statement_timeout, period=section.period)


def _chain(
    layers: Sequence[LayerSection],
    *,
    work: timedelta,
    statement_timeout: timedelta | None = None,
    period: timedelta | None = None,
) -> Chain:
    return Chain(tuple(_layer(each) for each in layers), work, statement_timeout, period)


def _layer(section: LayerSection) -> Layer:
    known = Known(1) if section.kind is None else KNOWN[section.kind]
    counted = section.attempts if section.retries is None else section.retries + 1
    return Layer(
        name=section.name,
        attempts=known.attempts if counted is None else counted,
        timeout=section.timeout,
        lifetime=section.lifetime,
        pause=known.pause if section.pause is None else section.pause,
        backoff=known.backoff if section.backoff is None else section.backoff,
        hands_down=section.hands_down,
        asynchronous=known.asynchronous if section.asynchronous is None else section.asynchronous,
    )
