"""The base of all sections of the configuration."""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """The base of all sections: unknown keys are errors, nothing is converted silently."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
