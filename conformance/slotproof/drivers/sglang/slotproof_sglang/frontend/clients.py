"""Several clients at once: each does what its script says, and notes what it hears.

| action | |
|---|---|
| `open`, `close` | a session |
| `turn` | tokens for a session, or for none; `stream`: the answer comes token by token |
| `abort` | of a turn, by its id |
| `pause` | milliseconds |

A turn may go on by itself (`wait` is false), and its client may leave in mid-answer: after so many
chunks or milliseconds (`leaves`) its task is cancelled, or, with `http`, the request says that its
client is gone, as a web server's does. What is noted has one order over all clients.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Awaitable
from typing import Any

Noted = dict[str, Any]
Action = dict[str, Any]


TRIES, AGAIN = 100, 0.1
"""How often a client insists on a turn, and the seconds between."""
BUSY = "already has an active request"
"""What a turn is told while another one of its session is in flight."""


class Request:
    """As much of a web request as the front end looks at."""

    headers: dict[str, str] = {}  # noqa: RUF012  # there are none

    def __init__(self) -> None:
        self.gone = False

    async def is_disconnected(self) -> bool:
        """Whether the client went away."""
        return self.gone


class Clients:
    """Plays scripts on a running `Engine`."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.manager = engine.tokenizer_manager
        self.io: Any = importlib.import_module("sglang.srt.managers.io_struct")
        self.noted: list[Noted] = []
        self.open: set[str] = set()
        self.turns: dict[asyncio.Task[None], str] = {}

    def play(self, scripts: list[list[Action]], limit: float) -> list[Noted]:
        """What all clients heard; who is not answered within so many seconds is noted too."""
        self.noted = []
        self.engine.loop.run_until_complete(self._round(scripts, limit))
        return self.noted

    def alone(self, requests: list[Action], limit: float) -> list[Noted]:
        """Plain requests, one after the other, each on an empty cache."""
        self.noted = []

        async def one_by_one() -> None:
            for request in requests:
                await self._flush()
                await self._within(limit, self._turn({**request, "wait": True}, 0))
            await self._flush()

        self.engine.loop.run_until_complete(one_by_one())
        return self.noted

    def _note(self, client: int, what: str, **more: Any) -> None:
        self.noted.append({"client": client, "what": what, **more})

    async def _round(self, scripts: list[list[Action]], limit: float) -> None:
        mine = [self._client(number, script, limit) for number, script in enumerate(scripts)]
        await asyncio.gather(*mine)
        if self.turns:
            _, late = await asyncio.wait(self.turns, timeout=limit)
            for task in late:
                self._note(0, "unanswered", rid=self.turns[task])
                task.cancel()
        for sid in sorted(self.open):
            await self._close({"session": sid}, 0)
        self._note(0, "flushed", ok=await self._flush())

    async def _client(self, number: int, script: list[Action], limit: float) -> None:
        for action in script:
            what = getattr(self, f"_{action['do']}")
            if not await self._within(limit, what(action, number)):
                self._note(number, "unanswered", **_about(action))
                break  # what comes next would wait as long

    @staticmethod
    async def _within(limit: float, what: Awaitable[Any]) -> bool:
        try:
            await asyncio.wait_for(what, limit)
        except TimeoutError:
            return False
        return True

    # Actions ----------------------------------------------------------------------------

    async def _pause(self, action: Action, _: int) -> None:
        await asyncio.sleep(action["ms"] / 1000)

    async def _open(self, action: Action, client: int) -> None:
        sid = action["session"]
        self._note(client, "opens", session=sid)
        wanted = self.io.OpenSessionReqInput(
            capacity_of_str_len=1 << 20, session_id=sid, streaming=True
        )
        said = await self.manager.open_session(wanted, None)
        self.open.add(sid)
        self._note(client, "opened", session=sid, said=said)

    async def _close(self, action: Action, client: int) -> None:
        sid = action["session"]
        self._note(client, "closes", session=sid)
        self.open.discard(sid)
        await self.manager.close_session(self.io.CloseSessionReqInput(session_id=sid), None)

    async def _abort(self, action: Action, client: int) -> None:
        self._note(client, "aborts", rid=action["rid"])
        self.manager.abort_request(rid=action["rid"])

    async def _flush(self) -> bool:
        """Empty the cache; it is refused while anything runs, so it is asked again."""
        for _ in range(100):
            said = await self.manager.flush_cache()
            if said is None or said.success:
                return True
            await asyncio.sleep(0.05)
        return False

    async def _turn(self, action: Action, client: int) -> None:
        if action.get("insists"):
            await self._insisted(action, client)
        else:
            await self._begun(action, client)

    async def _insisted(self, action: Action, client: int) -> None:
        """Ask again, under another id, as long as a turn before it is in the way."""
        for number in range(TRIES):
            rid = f"{action['rid']}{number:02}"
            await self._begun({**action, "rid": rid, "turn": action["rid"]}, client)
            last = next((each for each in reversed(self.noted) if each.get("rid") == rid), {})
            if BUSY not in str(last.get("error") or last.get("message")):
                return
            await asyncio.sleep(AGAIN)
        self._note(client, "insisted", rid=action["rid"], times=TRIES)

    async def _begun(self, action: Action, client: int) -> None:
        task = asyncio.ensure_future(self._asked(action, client))
        self.turns[task] = action["rid"]
        task.add_done_callback(lambda done: self.turns.pop(done, None))
        if action.get("wait", True):
            await asyncio.wait({task})
        else:
            await asyncio.sleep(0)  # it is sent before what comes next

    # A turn ------------------------------------------------------------------------------

    async def _asked(self, action: Action, client: int) -> None:
        """Send a turn and read its answer, or leave."""
        rid, leaves = action["rid"], action.get("leaves")
        self._note(client, "sent", rid=rid, turn=action.get("turn", rid))
        request = Request() if action.get("http") else None
        answer = self._answer(action, request)
        try:
            if leaves is None:
                await self._read(answer, client, rid)
            elif action.get("stream"):
                await self._read(answer, client, rid, leaves)
            else:
                await self._read_for(answer, client, rid, leaves / 1000, request)
        except asyncio.CancelledError:
            self._note(client, "left", rid=rid)
            raise
        except Exception as error:
            self._note(client, "raised", rid=rid, error=f"{type(error).__name__}: {error}"[:300])

    def _answer(self, action: Action, request: Request | None) -> AsyncIterator[Any]:
        asked = {
            "input_ids": list(action["tokens"]),
            "sampling_params": {"max_new_tokens": action["max_new"], "temperature": 0.0},
            "rid": action["rid"],
            "stream": bool(action.get("stream")),
        }
        if action.get("session") is not None:
            asked["session_params"] = {"id": action["session"]}
        if request is None:
            return self._through_engine(asked)
        return self.manager.generate_request(self.io.GenerateReqInput(**asked), request)  # type: ignore[no-any-return]

    async def _through_engine(self, asked: dict[str, Any]) -> AsyncIterator[Any]:
        """The `Engine`'s own method, whose answer is one or comes in chunks."""
        answer = await self.engine.async_generate(**asked)
        if not asked["stream"]:
            yield answer
            return
        try:
            async for chunk in answer:
                yield chunk
        finally:
            await answer.aclose()

    async def _read(
        self, answer: AsyncIterator[Any], client: int, rid: str, chunks: int | None = None
    ) -> None:
        """Note the chunks of an answer, all of them or so many."""
        read = 0
        if chunks == 0:  # it has to be sent to be left
            first = asyncio.ensure_future(anext(answer))
            await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait({first})
        else:
            async for chunk in answer:
                self._heard(client, rid, chunk)
                read += 1
                if read == chunks:
                    break
            else:
                self._note(client, "over", rid=rid)
                return
        self._note(client, "left", rid=rid)
        await answer.aclose()  # type: ignore[attr-defined]  # a generator

    async def _read_for(
        self,
        answer: AsyncIterator[Any],
        client: int,
        rid: str,
        seconds: float,
        request: Request | None,
    ) -> None:
        """Wait for an answer for so long; then the client is gone."""
        reading = asyncio.ensure_future(self._read(answer, client, rid))
        await asyncio.wait({reading}, timeout=seconds)
        if not reading.done():
            self._note(client, "left", rid=rid)
            if request is not None:
                request.gone = True
            else:
                reading.cancel()
        await asyncio.wait({reading})
        if not reading.cancelled():
            reading.result()

    def _heard(self, client: int, rid: str, said: Any) -> None:
        about = said["meta_info"]
        reason = about.get("finish_reason")
        note = {"rid": rid, "tokens": [int(token) for token in said.get("output_ids") or ()]}
        for name in ("prompt_tokens", "completion_tokens", "cached_tokens"):
            note[name] = about.get(name)
        if about.get("id", rid) != rid:
            note["of"] = about["id"]
        if reason is None:
            self._note(client, "chunk", **note)
            return
        message = str(reason.get("message") or "")[:300]
        self._note(client, "final", reason=reason.get("type"), message=message, **note)


def _about(action: Action) -> dict[str, Any]:
    return {name: action[name] for name in ("session", "rid") if name in action}
