"""Record of the clients: the commands sent, the answers received, and the answers still due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from slotproof.protocol.commands import TICKS, Command
from slotproof.protocol.snapshot import Hashed, Message, SessionView, Tokens, joined
from slotproof_model.spec.profiles import PROFILES, Choices


@dataclass
class Sent:
    """A request as its client knows it."""

    session: str | None
    tokens: Tokens
    max_new: int
    stop: list[int]
    answers: int = 0
    reason: str | None = None
    output: Tokens = field(default_factory=list)
    prompt: Tokens = field(default_factory=list)
    """Session's history plus the new tokens, set when the engine reads the request."""
    read: bool = False
    since: float = 0
    """Time at which the engine read the request, in seconds."""
    refusable: bool | None = False
    """True if the engine could refuse the request: its session was not open, or its prompt was
    empty. None if unknown: the session may have been closing or may have had a turn in flight."""
    aborted: int | None = None
    """Number of iterations since the engine read an abort. None if the engine read no abort."""
    closed: bool = False
    """True if the engine may end the request, because it read a close of the request's session."""
    closing: bool = False
    """True if the engine read a close of the session later than the request."""
    opening: Asked | None = None
    """Unanswered open of the session at the time when the engine read the request. Until its
    answer, messages about the session are about the previous session of the same name."""
    left: bool = False
    """True if the session ended before the answer. The end makes a queued prompt final."""
    ahead: int = 0
    """Number of tokens by which earlier turns in the queue may lengthen the prompt."""

    @property
    def most(self) -> int:
        """Largest number of tokens in prompt and answer together."""
        return len(self.prompt) + self.ahead + max(0, self.max_new)


CLOSES = "answers to close"
"""Key in the ``not_observed`` of an engine that never answers a close. For such an engine, only the
answers to opens are judged."""
PATIENCE = 2
"""Largest number of unpaused iterations from a session's last turn to the answer of a close."""
REAPS = 1
"""Largest delay of a deferred close, in seconds: SGLang reaps idle sessions at this interval."""


@dataclass(eq=False)
class Asked:
    """An unanswered command: an open, a close, or an abort that ends the session."""

    do: str
    answers: set[str]
    """Answers that the engine may give to the command."""
    waits: int = 0
    """Number of iterations so far in which the engine could have answered."""

    def due(self, free: bool) -> bool:
        """Return True if the answer is overdue. ``free``: the engine could have answered now."""
        return "closed" not in self.answers or self.waits + free > PATIENCE


_REJECTS = PROFILES["reference"].choices


@dataclass
class Conversation:
    """A session as its clients know it."""

    open: bool | None = False
    """True if the session is open, as far as clients know. None: a pending close decides."""
    asked: list[Asked] = field(default_factory=list)
    answered: list[tuple[Asked, str]] = field(default_factory=list)
    """Commands answered in this iteration, each with its answer."""
    used: float = 0
    """Time at which the engine read the open or the last turn, whichever came later."""
    idle: float = 0
    """Time since which the session has certainly had no turn."""
    taken: float = 0
    """Time at which the engine read the open or the last turn that it had to accept."""
    closes: bool = False
    """True if the engine has read a close since the open."""
    deferred: float | None = None
    """Last time at which a close had to wait for an unanswered turn."""

    def reads(self, do: str, busy: bool) -> None:
        """Record an open or close. ``busy``: a turn may be in flight, so a close must wait."""
        if do == "open":
            answers = {True: {"refused"}, False: {"opened"}, None: {"opened", "refused"}}[self.open]
            self.open = None if self.open is None else True
        elif self.open:
            answers = {"closed"}
            self.open = None if busy else False
        else:
            answers = {"refused"} if self.open is False else {"refused", "closed"}
        self.asked.append(Asked(do, answers))

    def ends(self) -> None:
        """Record the abort of a turn, on an engine whose aborts end sessions. The answer ``closed``
        may follow once, unless it is already due. If the turn was refused, no answer follows."""
        opens = (n for n, command in enumerate(self.asked, 1) if "opened" in command.answers)
        begin = max(opens, default=0)
        if not any(command.answers == {"closed"} for command in self.asked[begin:]):
            self.asked.append(Asked("abort", {"closed"}))
        self.open = None

    def hears(self, told: str) -> bool:
        """Assign an answer to a command and remove the command. Return False if no command fits."""
        fitting = [command for command in self.asked if told in command.answers]
        if told == "closed" and fitting:  # An open must be answered before the commands after it.
            later = self.asked[self.asked.index(fitting[0]) :]
            opens = [n for n, command in enumerate(later) if command.do == "open"]
            later = later[: min(opens, default=None)]
            fitting = [command for command in later if told in command.answers]
        sure = [command for command in fitting if command.do != "abort" or told != "closed"]
        if told == "refused":  # Opens first: a close may be answered later, an abort not at all.
            sure.sort(key=lambda command: (command.do == "abort", "closed" in command.answers))
        if (answered := (*sure, *fitting, None)[0]) is None:
            return self._hears_otherwise(told)
        before = self.asked[: self.asked.index(answered)]
        for index, earlier in enumerate(before):
            if earlier.do == "abort" and told == "closed":  # The close may have come too late.
                again = any(other.do == "open" for other in before[index:])
                earlier.answers = answered.answers - (set() if again else {told})
        self.asked.remove(answered)
        self.answered.append((answered, told))
        return True

    def _hears_otherwise(self, told: str) -> bool:
        """Return True if all answers of this iteration fit if they are assigned differently."""
        for index, (taken, before) in enumerate(self.answered):
            other = next((command for command in self.asked if before in command.answers), None)
            if told in taken.answers and other is not None:
                self.asked.remove(other)
                self.answered[index : index + 1] = [(taken, told), (other, before)]
                return True
        return False


class Client:
    """All clients together. ``hears_closes``: the engine answers closes. ``aborts_close``: aborting
    a turn ends its session.

    Clients see two of a profile's choices. ``drops_last``: the next prompt lacks an answer's last
    token. ``queues_turns``: a turn sent while another is in flight is queued, not refused.
    """

    def __init__(
        self, hears_closes: bool = True, choices: Choices = _REJECTS, aborts_close: bool = False
    ) -> None:
        self.hears_closes, self.aborts_close = hears_closes, aborts_close
        self.drops_last, self.queues = choices["drops_last"], choices["queues_turns"]
        self.unexpected: list[tuple[str, str]] = []
        """Answers in this iteration that fit no command, each with its session."""
        self.behind: Counter[str] = Counter()
        """Number of rounds since the window cursor of a request should have moved."""
        self.requests: dict[str, Sent] = {}
        self.history: dict[str, Tokens] = {}
        """Tokens of finished turns, by session. Only open sessions are listed."""
        self.unanswered: dict[str, Sent] = {}
        """Requests that the engine has read and not yet answered."""
        self.sessions: dict[str, Conversation] = {}
        self.clock: float = 0
        """Time in seconds since the start."""
        self.hasty = False
        """True if the last command that let time pass was shorter than a second."""
        self.unread: list[Command] = []
        """Commands sent but not yet read by the engine."""
        self.heard: list[Command] = []
        """Commands that the engine read in this iteration."""
        self.retracting: set[str] = set()
        """Requests that ran when the engine read a retract. Empty after the retraction."""
        self.waited = 0
        """Number of iterations since the engine read the retract."""
        self.told: dict[str, int] = {}
        """Number of tokens that the next decoding round has to accept, by request."""
        self.under_way: dict[str, list[int | None]] = {}
        """Number of tokens that each launched decoding round has to accept, by request."""
        self.paused = False
        self.unheard = 0
        """Number of consecutive iterations in which the engine left all waiting commands unread."""
        self.stalled = 0
        """Number of consecutive iterations in which requests existed but nothing changed."""
        self.patience = 0
        """Number of iterations left to answer all requests, if no new command comes."""

    def sends(self, command: Command) -> None:
        if command["do"] in TICKS:
            self.hasty = "ms" in command
            self.clock += command["ms"] / 1000 if self.hasty else command["seconds"]
        elif command["do"] != "step":
            self.unread.append(command)
        if command["do"] == "submit" and command["rid"] not in self.requests:
            self.requests[command["rid"]] = Sent(
                command["session"], command["tokens"], command["max_new"], command["stop"]
            )

    def reads(self, count: int) -> None:
        """Record that the engine read the next ``count`` commands."""
        self.unexpected = []
        self.heard = self.unread[:count]
        for command in self.heard:
            do, rid = command["do"], command.get("rid", "")
            if do in ("pause", "continue"):
                self.paused = do == "pause"
            elif do in ("open", "close"):
                sid = command["session"]
                session = self.sessions.setdefault(sid, Conversation())
                session.idle = self.clock
                if do == "open" and not session.open:
                    session.used = session.taken = self.clock
                session.closes = do == "close" or (session.closes and session.open is not False)
                busy = self.busy(sid)
                if do == "close" and busy:
                    session.deferred = self.clock
                session.reads(do, busy)
                if do == "close" and not self.hears_closes:
                    session.asked.pop()
                for sent in self.unanswered.values() if do == "close" else ():
                    sent.closing |= sent.session == sid
                    sent.closed |= sent.session == sid and not self.queues
            elif do == "submit" and not self.requests[rid].read:
                self._reads(rid, self.requests[rid])
            for sent in self.unanswered.values() if do == "abort_all" else ():
                self._aborts(sent)
            if do == "abort" and rid in self.unanswered:
                self._aborts(self.unanswered[rid])
        del self.unread[:count]

    def _aborts(self, sent: Sent) -> None:
        sent.aborted = sent.aborted or 0
        session = self.sessions.get(sent.session or "")
        if self.aborts_close and session is not None and session.open is not False:
            session.ends()
            for request in self.unanswered.values():
                request.closed |= request.session == sent.session

    def _reads(self, rid: str, sent: Sent) -> None:
        """Record that the engine read a request, given the session's state at that time."""
        past: Tokens = []
        waits = False
        if sent.session is not None:
            session = self.sessions.setdefault(sent.session, Conversation())
            waits = self.busy(sent.session)
            if not session.open or (waits and not self.queues):  # the other turn may have ended
                sent.refusable = True if session.open is False else None
            session.used = session.idle = self.clock
            opens = [command for command in session.asked if command.do == "open"]
            sent.opening = next((e for e in reversed(opens) if e.answers == {"opened"}), None)
            past = [] if sent.opening else self.history.get(sent.session, [])
        sent.prompt = joined(past, sent.tokens)
        sent.read, sent.since = True, self.clock
        if not len(sent.prompt):
            sent.refusable = None if waits and self.queues else True
        if sent.session is not None and sent.refusable is False:
            self.sessions[sent.session].taken = self.clock
        if not sent.answers:
            self.unanswered[rid] = sent
            self._queue()

    def _queue(self) -> None:
        """Update each queued turn's prompt, and the number of tokens that earlier turns may add."""
        ahead: dict[str, int] = {}
        for sent in self.unanswered.values() if self.queues else ():
            if (sid := sent.session) is not None and not sent.left:
                past = [] if self._opening(sent) else self.history.get(sid, [])
                sent.prompt, sent.ahead = joined(past, sent.tokens), ahead.get(sid, 0)
                ahead[sid] = sent.ahead + len(sent.tokens) + max(0, sent.max_new)

    def free(self, sid: str, runs: bool) -> bool:
        """Return True if the engine can answer the session's commands. ``runs``: batches run."""
        return runs and not self.paused and not self.busy(sid)

    def settle(self, shown: Mapping[str, SessionView], runs: bool) -> None:
        """Finish an iteration: drop commands with overdue answers, and update the open sessions."""
        self._queue()
        busy = {sent.session for sent in self.unanswered.values()}
        for sid, session in tuple(self.sessions.items()):
            if sid in busy:
                session.idle = self.clock
            free = runs and not self.paused and sid not in busy
            session.answered.clear()
            session.asked = [command for command in session.asked if not command.due(free)]
            for command in session.asked:
                command.waits += free
            if not self.hears_closes:
                view = shown.get(sid)
                if view is None and sid in busy and (session.open or session.deferred is not None):
                    session.deferred = self.clock  # The session may exist until its turn ends.
                session.open = view is not None and view["open"] and (not view["closing"] or None)
                if session.deferred is not None and self.clock - session.deferred <= REAPS:
                    session.open = session.open or None
            elif not session.asked:
                session.open = sid in self.history
            if session.open is False and not session.asked:
                del self.sessions[sid]  # memory stays bounded for a long log

    def _opening(self, sent: Sent) -> bool:
        """Return True if the open that came before the request is still unanswered."""
        session = self.sessions.get(sent.session or "")
        return session is not None and sent.opening in session.asked

    def busy(self, sid: str) -> bool:
        """Return True if the session may have a turn in flight."""
        return any(sent.session == sid for sent in self.unanswered.values())

    def hears(self, message: Message) -> None:
        """Record a message. The tokens of a finished turn are added to its session's history."""
        if message["type"] != "finish" and message["session"] is not None:
            sid, told = message["session"], message["type"]
            if not self.sessions.setdefault(sid, Conversation()).hears(told):
                self.unexpected.append((sid, told))
        if message["type"] == "opened":
            sid = str(message["session"])
            self.history[sid] = []
            if sid in self.sessions:  # a message may name no session
                self.sessions[sid].deferred = None
        elif message["type"] == "closed":
            sid = str(message["session"])
            self.history.pop(sid, None)
            unasked = (sid, "closed") in self.unexpected  # a reap ends the earlier requests
            fresh = {command.get("rid") for command in self.heard}
            for rid, request in self.unanswered.items():
                ended = (request.closing or request.closed) and not self._opening(request)
                request.left |= request.session == sid and (ended or (unasked and rid not in fresh))
        elif message["type"] == "finish":
            if (sent := self.requests.get(message["rid"])) is None:
                return
            sent.answers += 1
            self.unanswered.pop(message["rid"], None)
            sent.reason = message["reason"]
            sent.output = message["tokens"]
            if sent.session in self.sessions:
                self.sessions[sent.session].idle = self.clock
            if sent.read and sent.reason == "abort":
                return
            past = self.history.get(sent.session, []) if sent.session else []
            sent.prompt = joined(past, sent.tokens)
            if sent.session in self.history and sent.reason != "abort":
                assert sent.session is not None
                self.history[sent.session] = joined(sent.prompt, self._kept(sent.output))

    def _kept(self, output: Tokens) -> Tokens:
        """Return the part of an answer that will be in the next prompt."""
        if not self.drops_last or not len(output):
            return output
        return Hashed(len(output) - 1, None) if isinstance(output, Hashed) else output[:-1]

    def later(self, sent: Sent) -> bool:
        """Return True if, after ``sent``, the engine read another request without a session."""
        requests = reversed(self.requests.values())
        return next((e for e in requests if e.read and not e.session), sent) is not sent

    def prompt_of(self, rid: str) -> Tokens | None:
        """Return the prompt that a live request should have, or None if unknown."""
        if (sent := self.requests.get(rid)) is None:
            return None
        if sent.session is None:
            return sent.tokens
        past = self.history.get(sent.session)
        return None if past is None else joined(past, sent.tokens)
