"""Guards around wrappers. The server keeps running if a wrapper fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Switch:
    """Switch of the recorder. The first failure turns it off for good and prints the reason."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.on = True
        self.tell = tell

    def off(self, why: str) -> None:
        """Stop recording."""
        if self.on:
            self.on = False
            self.tell(why)


class Once:
    """Original function, with a record of its call: a failing wrapper causes no second call."""

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
    """Return a function that calls ``wrapper(original, …)`` while the switch is on.

    Exceptions and results of the original always reach the caller. An exception of the wrapper
    itself turns the switch off.
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
