"""The rules as a state machine of Hypothesis.

Hypothesis draws; shrinking is done on the commands, by
:mod:`slotproof.search.shrinking`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from hypothesis import stateful

from slotproof.protocol.config import EngineConfig
from slotproof.search.rules import clients_for, rules_of
from slotproof.search.sending import Host


def machine_for(
    host: Host, offered: Collection[str], config: EngineConfig
) -> type[stateful.RuleBasedStateMachine]:
    """A state machine class whose instances judge one fresh engine each."""
    clients = clients_for(offered, config)

    class Machine(clients, stateful.RuleBasedStateMachine):  # type: ignore[valid-type,misc]
        def __init__(self) -> None:
            stateful.RuleBasedStateMachine.__init__(self)
            clients.__init__(self, host, config)

        @stateful.initialize()
        def first(self) -> None:
            super().first()

        def teardown(self) -> None:
            self.last()

    for each in rules_of(clients):
        strategies: dict[str, Any] = {name: domain.strategy for name, domain in each.fields.items()}
        make: Callable[[Callable[..., None]], Callable[..., None]] = stateful.rule(**strategies)
        drawn = make(each.do)
        if each.sent or not each.offered:
            drawn = stateful.precondition(each.applies)(drawn)
        setattr(Machine, each.name, drawn)
    return Machine
