"""What clients do on a front end: drawn from a seed, played at once.

A client lives through sessions and plain requests one after the other. Each session has a token id
of its own, its *canary*, with which every prompt of it begins: no two sessions share a prefix, and
a canary in another's prompt is seen. Lengths stay within the context whatever becomes of the turns
that nobody waited for, so that no prompt is refused for its length.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

Action = dict[str, Any]
Script = list[Action]

VOCAB = 256
"""Token ids of the driver's model."""
MARGIN = 8
"""Tokens of the context that SGLang keeps to itself, and two more."""
SESSIONS = 2
"""Of a client in a round; after each perhaps a plain request."""
MOST_CLIENTS = 32
"""So many have canaries, and other token ids are left."""
_TURNS, _PROMPT, _NEW = 6, 9, 6
"""Turns of a session, tokens of a prompt beside its canary and of an answer, at most."""
_AT_ONCE = 0.15
"""How many turns are not waited for: what comes next comes while they run."""
_LEAVES, _ABORTS, _STREAMS, _HTTP = 0.2, 0.1, 0.5, 0.3


def drawn(seed: int, number: int, clients: int, context: int) -> list[Script]:
    """The scripts of a round, one for each client; the same for the same numbers.

    >>> once, again = (drawn(0, 3, 2, 96) for _ in "12")
    >>> once == again, [script[0]["do"] for script in once][:1]
    (True, ['open'])
    """
    rng = random.Random(f"{seed}:{number}")  # noqa: S311  # not for secrets
    canaries = list(range(1, VOCAB))
    rng.shuffle(canaries)
    canary = iter(canaries)
    words = canaries[2 * SESSIONS * clients :]
    """What may stand behind a canary: nobody's."""
    return [list(_client(rng, number, each, canary, words, context)) for each in range(clients)]


def renamed(scripts: list[Script], number: int) -> list[Script]:
    """The same under other names: an engine is not asked twice for one.

    >>> renamed([[{"do": "abort", "rid": "a"}]], 2)
    [[{'do': 'abort', 'rid': 'a-002'}]]
    """

    def name(action: Action) -> Action:
        names = {key: action[key] for key in ("session", "rid") if action.get(key) is not None}
        return {**action, **{key: f"{each}-{number:03}" for key, each in names.items()}}

    return [[name(each) for each in script] for script in scripts]


def _client(
    rng: random.Random, number: int, client: int, canary: Iterator[int], words: list[int], most: int
) -> Iterator[Action]:
    for session in range(SESSIONS):
        name = f"n{number:05}c{client:02}s{session}"
        yield from _session(rng, name, next(canary), words, most)
        if rng.random() < 0.5:
            prompt = _prompt(rng, next(canary), words)
            yield _asked(
                rng, {"rid": f"{name}p", "tokens": prompt, "max_new": rng.randint(1, _NEW)}
            )


def _session(
    rng: random.Random, name: str, canary: int, words: list[int], most: int
) -> Iterator[Action]:
    yield {"do": "open", "session": name}
    longest, left = 0, False
    for turn in range(rng.randint(2, _TURNS)):
        tokens, new = _prompt(rng, canary, words), rng.randint(1, _NEW)
        longest += len(tokens) + new
        if longest > most - MARGIN:
            break
        wanted = {"session": name, "rid": f"{name}t{turn}", "tokens": tokens, "max_new": new}
        action = _asked(rng, wanted)
        left = left or "leaves" in action
        yield action
        if not action["wait"] and rng.random() < 0.5:
            yield {"do": "pause", "ms": rng.choice([0, 5, 20])}
        if not action["wait"] and rng.random() < _ABORTS / _AT_ONCE:
            yield {"do": "abort", "rid": wanted["rid"]}
    tokens = _prompt(rng, canary, words)
    if left and longest + len(tokens) + 1 <= most - MARGIN and rng.random() < 0.7:
        # Whoever left has to be let in again, sooner or later.
        wanted = {"session": name, "rid": f"{name}i", "tokens": tokens, "max_new": 1}
        yield {"do": "turn", **wanted, "wait": True, "insists": True}
    if rng.random() < 0.9:
        yield {"do": "close", "session": name}


def _prompt(rng: random.Random, canary: int, words: list[int]) -> list[int]:
    return [
        canary,
        *(rng.choice([canary, *rng.sample(words, 3)]) for _ in range(rng.randrange(_PROMPT))),
    ]


def _asked(rng: random.Random, wanted: Action) -> Action:
    """A turn, and how it is asked for and waited for."""
    action = {"do": "turn", **wanted, "wait": rng.random() >= _AT_ONCE}
    if rng.random() < _STREAMS:
        action["stream"] = True
    if rng.random() < _HTTP:
        action["http"] = True
    if rng.random() < _LEAVES:  # after so many chunks, or so many milliseconds
        streams = action.get("stream")
        action["leaves"] = rng.randrange(wanted["max_new"]) if streams else rng.choice([0, 5, 30])
    return action
