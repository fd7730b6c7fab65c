"""Wrappers that may fail without the server noticing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Switch:
    """On until something goes wrong; then off for good, with one line that says why."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.on = True
        self.tell = tell

    def off(self, why: str) -> None:
        """No more recording."""
        if self.on:
            self.on = False
            self.tell(why)


class Once:
    """The original, called at most once, whatever its wrapper does."""

    __slots__ = ("called", "error", "original", "result")

    def __init__(self, original: Callable[..., Any]) -> None:
        self.original = original
        self.called = False
        self.result: Any = None
        self.error: BaseException | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.called = True
        try:
            self.result = self.original(*args, **kwargs)
        except BaseException as error:
            self.error = error
            raise
        return self.result


def guarded(
    switch: Switch, original: Callable[..., Any], wrapper: Callable[..., Any]
) -> Callable[..., Any]:
    """``wrapper(original, …)`` as long as the switch is on and the wrapper works.

    What the original raises or returns is raised or returned in any case; what the wrapper
    itself raises turns the switch off.
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        if not switch.on:
            return original(*args, **kwargs)
        once = Once(original)
        try:
            return wrapper(once, *args, **kwargs)
        except Exception as error:
            if once.error is not None:
                raise once.error from None
            switch.off(f"the recorder failed: {type(error).__name__}: {error}")
        return once.result if once.called else original(*args, **kwargs)

    return called
