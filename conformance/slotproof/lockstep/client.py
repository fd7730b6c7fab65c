"""What the clients know: what they sent, what they were told, what must follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slotproof.protocol.commands import Command
from slotproof.protocol.snapshot import Hashed, Message, SessionView, Tokens, joined
from slotproof_model.spec.profiles import PROFILES, Choices


@dataclass
class Sent:
    """A request as its client sees it."""

    session: str | None
    tokens: Tokens
    max_new: int
    stop: list[int]
    answers: int = 0
    reason: str | None = None
    output: Tokens = field(default_factory=list)
    prompt: Tokens = field(default_factory=list)
    """History and new tokens; known once it was read, and for certain once it was answered."""
    read: bool = False
    since: int = 0
    """The time at which it was."""
    refusable: bool | None = False
    """When it was read, its session was not open; ``None``: it may have been closing, or had a
    turn in flight, which is the engine's to know, or what it waits for may leave it no prompt."""
    aborted: int | None = None
    """Iterations since an abort of it was read; ``None``: none was."""
    closed: bool = False
    """A close of its session was read: the engine may end it for that."""
    closing: bool = False
    """A close of its session was read behind it."""
    opening: Asked | None = None
    """The open of its session that it came behind, if that was not answered when it was read: until
    it is, what is told of the session is of the one before."""
    left: bool = False
    """And the session was closed before it was answered, or it was reaped: its prompt is what it
    was."""
    ahead: int = 0
    """Tokens by which turns that are queued before it may make its prompt longer."""

    @property
    def most(self) -> int:
        """Tokens of prompt and answer, at most."""
        return len(self.prompt) + self.ahead + max(0, self.max_new)


CLOSES = "answers to close"
"""What an engine names in ``not_observed`` that never says ``closed``, nor ``refused`` to a close.
Then only its answers to opens are judged."""
PATIENCE = 2
"""Iterations, pauses apart, within which a close is done once no turn is in flight."""
REAPS = 1
"""Seconds within which it is where nobody is told of it: so often SGLang looks for such ones."""


@dataclass(eq=False)
class Asked:
    """An open or a close that was read and not answered; or an abort that ends its session."""

    do: str
    answers: set[str]
    """What may answer it."""
    waits: int = 0
    """Iterations in which nothing hindered the answer."""

    def due(self, free: bool) -> bool:
        """Whether it should have been answered by now; ``free``: nothing hindered that just now."""
        return "closed" not in self.answers or self.waits + free > PATIENCE


_REJECTS = PROFILES["reference"].choices


@dataclass
class Conversation:
    """A session as its clients see it."""

    open: bool | None = False
    """Whether it is, by what was read and told; ``None``: that depends on when a close is done."""
    asked: list[Asked] = field(default_factory=list)
    answered: list[tuple[Asked, str]] = field(default_factory=list)
    """What was answered in this iteration, and how."""
    used: int = 0
    """The time at which it was opened, or a turn of it was read last."""
    idle: int = 0
    """From then on it had no turn, for certain."""
    taken: int = 0
    """The time at which it was opened, or a turn was read last that it had to take."""
    closes: bool = False
    """A close of it was read since it was opened."""
    deferred: int | None = None
    """The time at which it was, and a turn was not answered."""

    def reads(self, do: str, busy: bool) -> None:
        """An open or a close; ``busy``: a turn may be in flight, for which a close waits."""
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
        """An abort of a turn, in an engine where that ends the session: one more answer may come,
        unless the session is to be told so already. None comes where the turn was refused."""
        opens = (n for n, each in enumerate(self.asked, 1) if "opened" in each.answers)
        begin = max(opens, default=0)
        if not any(each.answers == {"closed"} for each in self.asked[begin:]):
            self.asked.append(Asked("abort", {"closed"}))
        self.open = None

    def hears(self, told: str) -> bool:
        """Whether that answers something that was asked; then it is asked no more."""
        fitting = [each for each in self.asked if told in each.answers]
        if told == "closed" and fitting:  # what comes after an open is not answered before it
            later = self.asked[self.asked.index(fitting[0]) :]
            opens = [n for n, each in enumerate(later) if each.do == "open"]
            fitting = [each for each in later[: min(opens, default=None)] if told in each.answers]
        sure = [each for each in fitting if each.do != "abort" or told != "closed"]
        if told == "refused":  # a close may be answered later, an open may not; an abort need not
            sure.sort(key=lambda each: (each.do == "abort", "closed" in each.answers))
        if (answered := (*sure, *fitting, None)[0]) is None:
            return self._hears_otherwise(told)
        before = self.asked[: self.asked.index(answered)]
        for index, each in enumerate(before):
            if each.do == "abort" and told == "closed":  # the close may have come too late
                again = any(other.do == "open" for other in before[index:])
                each.answers = answered.answers - (set() if again else {told})
        self.asked.remove(answered)
        self.answered.append((answered, told))
        return True

    def _hears_otherwise(self, told: str) -> bool:
        """Whether it answers what another answer of this iteration was taken for, and that one
        answers something else."""
        for index, (taken, before) in enumerate(self.answered):
            other = next((each for each in self.asked if before in each.answers), None)
            if told in taken.answers and other is not None:
                self.asked.remove(other)
                self.answered[index : index + 1] = [(taken, told), (other, before)]
                return True
        return False


class Client:
    """All clients together. ``hears_closes``: an engine says when a session is closed;
    ``aborts_close``: an abort of a turn ends its session.

    Of the choices, two are what clients see: what is told of an answer's last token to the next
    turn, and what becomes of a turn that finds one in flight.
    """

    def __init__(
        self, hears_closes: bool = True, choices: Choices = _REJECTS, aborts_close: bool = False
    ) -> None:
        self.hears_closes, self.aborts_close = hears_closes, aborts_close
        self.drops_last, self.queues = choices["drops_last"], choices["queues_turns"]
        self.unexpected: list[tuple[str, str]] = []
        """What sessions were told in this iteration and nothing that was asked explains."""
        self.requests: dict[str, Sent] = {}
        self.history: dict[str, Tokens] = {}
        """Tokens of the finished turns of each open session."""
        self.unanswered: dict[str, Sent] = {}
        """Requests that were read."""
        self.sessions: dict[str, Conversation] = {}
        self.clock = 0
        """Seconds that passed."""
        self.unread: list[Command] = []
        """Sent, and not yet read by the engine."""
        self.heard: list[Command] = []
        """What the engine read in this iteration."""
        self.retracting: set[str] = set()
        """Who ran when a retract was read that has not taken place."""
        self.waited = 0
        """Iterations since then."""
        self.told: dict[str, int] = {}
        """By request, how many tokens its next round is to accept."""
        self.under_way: dict[str, list[int | None]] = {}
        """The same of its rounds that were launched."""
        self.paused = False
        self.unheard = 0
        """Iterations in which the engine read nothing of what was sent."""
        self.stalled = 0
        """Iterations in which there was a request and nothing changed."""
        self.patience = 0
        """Iterations within which all are answered, if nobody sends anything more."""

    def sends(self, command: Command) -> None:
        if command["do"] == "tick":
            self.clock += command["seconds"]
        elif command["do"] != "step":
            self.unread.append(command)
        if command["do"] == "submit" and command["rid"] not in self.requests:
            self.requests[command["rid"]] = Sent(
                command["session"], command["tokens"], command["max_new"], command["stop"]
            )

    def reads(self, count: int) -> None:
        """The engine has read so many commands."""
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
                for each in self.unanswered.values() if do == "close" else ():
                    each.closing |= each.session == sid
                    each.closed |= each.session == sid and not self.queues
            elif do == "submit" and not self.requests[rid].read:
                self._reads(rid, self.requests[rid])
            for each in self.unanswered.values() if do == "abort_all" else ():
                self._aborts(each)
            if do == "abort" and rid in self.unanswered:
                self._aborts(self.unanswered[rid])
        del self.unread[:count]

    def _aborts(self, sent: Sent) -> None:
        sent.aborted = sent.aborted or 0
        session = self.sessions.get(sent.session or "")
        if self.aborts_close and session is not None and session.open is not False:
            session.ends()
            for each in self.unanswered.values():
                each.closed |= each.session == sent.session

    def _reads(self, rid: str, sent: Sent) -> None:
        """A request, as the engine finds it: what has become of its session by then?"""
        past: Tokens = []
        waits = False
        if sent.session is not None:
            session = self.sessions.setdefault(sent.session, Conversation())
            waits = self.busy(sent.session)
            if not session.open or (waits and not self.queues):  # a turn may have left it by now
                sent.refusable = True if session.open is False else None
            session.used = session.idle = self.clock
            opens = [each for each in session.asked if each.do == "open"]
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
        """Where turns wait for each other: how long their prompts are by now, and may become."""
        ahead: dict[str, int] = {}
        for sent in self.unanswered.values() if self.queues else ():
            if (sid := sent.session) is not None and not sent.left:
                past = [] if self._opening(sent) else self.history.get(sid, [])
                sent.prompt, sent.ahead = joined(past, sent.tokens), ahead.get(sid, 0)
                ahead[sid] = sent.ahead + len(sent.tokens) + max(0, sent.max_new)

    def free(self, sid: str, runs: bool) -> bool:
        """Whether an iteration, if it ``runs`` a batch at all, may do what was asked for."""
        return runs and not self.paused and not self.busy(sid)

    def settle(self, shown: Mapping[str, SessionView], runs: bool) -> None:
        """An iteration is over: what is not answered by now will not be; what is open shows."""
        self._queue()
        busy = {each.session for each in self.unanswered.values()}
        for sid, session in tuple(self.sessions.items()):
            if sid in busy:
                session.idle = self.clock
            free = runs and not self.paused and sid not in busy
            session.answered.clear()
            session.asked = [each for each in session.asked if not each.due(free)]
            for each in session.asked:
                each.waits += free
            if not self.hears_closes:
                view = shown.get(sid)
                if view is None and sid in busy and (session.open or session.deferred is not None):
                    session.deferred = self.clock  # it may keep its name up to that turn's end
                session.open = view is not None and view["open"] and (not view["closing"] or None)
                if session.deferred is not None and self.clock - session.deferred <= REAPS:
                    session.open = session.open or None
            elif not session.asked:
                session.open = sid in self.history
            if session.open is False and not session.asked:
                del self.sessions[sid]  # as one that was never heard of: a log may be long

    def _opening(self, sent: Sent) -> bool:
        """Whether its session is not there yet, by what was told."""
        session = self.sessions.get(sent.session or "")
        return session is not None and sent.opening in session.asked

    def busy(self, sid: str) -> bool:
        """Whether a turn of the session may be in flight."""
        return any(each.session == sid for each in self.unanswered.values())

    def hears(self, message: Message) -> None:
        """Take an answer in; histories grow by what finished turns said."""
        if message["type"] != "finish" and message["session"] is not None:
            sid, told = message["session"], message["type"]
            if not self.sessions.setdefault(sid, Conversation()).hears(told):
                self.unexpected.append((sid, told))
        if message["type"] == "opened":
            sid = str(message["session"])
            self.history[sid] = []
            if sid in self.sessions:  # else it has no name
                self.sessions[sid].deferred = None
        elif message["type"] == "closed":
            sid = str(message["session"])
            self.history.pop(sid, None)
            unasked = (sid, "closed") in self.unexpected  # it was reaped: who was read before left
            fresh = {command.get("rid") for command in self.heard}
            for rid, each in self.unanswered.items():
                ended = (each.closing or each.closed) and not self._opening(each)
                left = ended or (unasked and rid not in fresh)
                each.left |= each.session == sid and left
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
        """What of an answer the next turn goes on from."""
        if not self.drops_last or not len(output):
            return output
        return Hashed(len(output) - 1, None) if isinstance(output, Hashed) else output[:-1]

    def later(self, sent: Sent) -> bool:
        """Whether another request without a session was read after it."""
        requests = reversed(self.requests.values())
        return next((e for e in requests if e.read and not e.session), sent) is not sent

    def prompt_of(self, rid: str) -> Tokens | None:
        """The prompt that a live request of this client must have; ``None`` if not known."""
        if (sent := self.requests.get(rid)) is None:
            return None
        if sent.session is None:
            return sent.tokens
        past = self.history.get(sent.session)
        return None if past is None else joined(past, sent.tokens)
