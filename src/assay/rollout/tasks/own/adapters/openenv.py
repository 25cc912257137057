"""Environments behind an address, by OpenEnv's client: each episode is a session of its own on the server.

A record may hold `reset`, more of what reset is given, and `seed`, which goes before the world's.

Source: OpenEnv 0.10, openenv.core.generic_client; RFC 002 of its repository.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import Field

from assay.core.config.base import Settings
from assay.rollout.tasks.own.adapters import called, home_of, imported, named
from assay.rollout.tasks.own.api import Environment, Told
from assay.rollout.tasks.own.loading import options_of
from assay.rollout.tasks.own.settings import OwnTask

WHERE = "assay.adapters:openenv"
LOST = ("CAPACITY_REACHED", "SESSION_ERROR", "FACTORY_ERROR")  # no fault of a completion
SEEDS = 2**31  # servers hand them to generators that take no more


class Options(Settings):
    """What task.options say of a server of OpenEnv."""

    url: str = Field(pattern=r"^(https?|wss?)://", examples=["http://127.0.0.1:8000"])
    action: str = Field(
        description="field of its actions that a completion fills, or FILE.py:FUNCTION of the task's folder"
        " that makes an action of `completion`"
    )
    text: str = Field(
        description="field of its observations that is told, or FILE.py:FUNCTION that tells `observation`"
    )
    success: str | None = Field(default=None, description="field of the last observation that says so")


def environments(settings: OwnTask, root: str) -> Callable[[], Environment]:
    """Return what makes a session.

    Raises:
        ConfigError: openenv is not installed, a function is not there, or the options are refused.
    """
    options: Options = options_of(Options, settings, WHERE)
    client = imported(
        "openenv.core.generic_client", extra="openenv", package="openenv==0.10.0"
    ).GenericEnvClient
    act = named(settings, root, options.action) if ".py:" in options.action else None
    tell = named(settings, root, options.text) if ".py:" in options.text else None
    home = home_of(settings, root)

    def connected() -> Any:
        return client(
            base_url=options.url, connect_timeout_s=settings.timeout_s, message_timeout_s=settings.timeout_s
        ).sync()

    return lambda: Session(connected, options, act, tell, home)


class Session(Environment):
    """A session on the server.

    Args:
        connected: Makes a client.
        options: Of the settings.
        act: Makes an action of a completion, None: a field of it.
        tell: Tells an observation, None: a field of it.
        home: Module in which players stand.
    """

    def __init__(
        self,
        connected: Callable[[], Any],
        options: Options,
        act: Callable[..., Any] | None,
        tell: Callable[..., Any] | None,
        home: str | None,
    ) -> None:
        self._connected, self.options, self._act, self._tell, self.home = (
            connected,
            options,
            act,
            tell,
            home,
        )
        self._client: Any = None

    def reset(self, row: Mapping[str, Any], seed: int) -> str:
        """Begin an episode in a session of its own."""
        self._row = row
        if self._client is None:
            self._client = self._connected()
        first = int(row.get("seed", seed)) % SEEDS
        return self._text(self._kept(self._client.reset, seed=first, **row.get("reset", {})).observation)

    def step(self, completion: str) -> Told:
        """Play one completion."""
        action = (
            {self.options.action: completion}
            if self._act is None
            else called(self._act, {"completion": completion, "row": self._row})
        )
        result = self._kept(self._client.step, action)
        seen, reward = result.observation, result.reward
        success = None
        if self.options.success is not None and result.done:
            success = bool(seen.get(self.options.success, False))
        return Told(None if result.done else self._text(seen), float(reward or 0.0), success)

    def _text(self, observation: Mapping[str, Any]) -> str:
        if self._tell is not None:
            told: str = called(self._tell, {"observation": observation, "row": self._row})
            return told
        if self.options.text not in observation:
            raise TypeError(f"no field {self.options.text} in an observation: {', '.join(observation)}")
        return str(observation[self.options.text])

    def _kept(self, call: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Return what the server says; a session that is not there any more is lost, and never used again."""
        try:
            return call(*given, **named)
        except (OSError, TimeoutError) as error:
            self.close()
            raise ConnectionError(f"{self.options.url}: {error}") from error
        except Exception as error:
            closed = type(error).__name__.startswith("ConnectionClosed")
            if closed or any(code in str(error) for code in LOST):
                self.close()
                raise ConnectionError(f"{self.options.url}: {error}") from error
            raise

    def close(self) -> None:
        """End the session."""
        client, self._client = self._client, None
        if client is not None:
            client.close()
