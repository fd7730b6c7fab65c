"""Bugs of overlap scheduling: of results that come late, and of the batch too many."""

from __future__ import annotations

from slotproof_engine.mutants.registry import Mutant, swap
from slotproof_engine.requests.req import Phase, Req
from slotproof_engine.scheduling.rounds import DecodeRounds
from slotproof_engine.scheduling.scheduler import Scheduler
from slotproof_engine.sessions.session_cache import SessionCache


class RetractedResult(Scheduler):
    def drop_result(self, req: Req) -> None:
        """Looks whether the request has ended, not whether it was retracted."""
        if req.phase is not Phase.WAITING:
            super().drop_result(req)


class LateResult(Scheduler):
    def drop_result(self, req: Req) -> None:
        """Looks whether the request was retracted, not whether it has ended."""
        if req.phase is Phase.WAITING:
            super().drop_result(req)


class LateFree(Scheduler):
    def drop_result(self, req: Req) -> None:
        """Frees what a finished request's last round computed: the slot has it."""
        late = self.results.of(req)
        super().drop_result(req)
        slot = self.cache.slot_of(req)
        if late is None or slot is None or req.rid in self.reqs:
            return
        last = self.kv.floor_page(max(0, slot.kv_committed_len - 1))
        if last >= slot.cache_protected_len:
            self.kv.free_kv(slot, last, self.kv.ceil_page(slot.kv_committed_len))


class TrimsDraftsOnly(SessionCache):
    def trim_overshoot(self, req: Req, finished_len: int) -> None:
        """Takes a plain round for one that can't go past the end."""
        if self.config.draft:
            super().trim_overshoot(req, finished_len)
        else:
            del req.output_ids[finished_len:]


class StaleInput(DecodeRounds):
    def last_token(self, req: Req) -> list[int]:
        """The last token that is known; the one under way comes after it."""
        return req.fill_ids[-1:]


OVERLAP = {"overlap": True}


class RetractsUnheard(Scheduler):
    def step(self) -> None:
        """Retracts a request whose first token is under way: it begins again, for ever."""
        for req in self.running_reqs():
            if self.config.overlap and req.session is None and not req.output_ids:
                self.retract_decode(req)
                break
        super().step()


MUTANTS = (
    Mutant(
        "overlap-retracted-result",
        "a plain fault",
        "the result under way of a retracted request counts: its token is there twice",
        ("INV-STEP", "INV-COVER", "INV-CONTENT"),
        swap(scheduler=RetractedResult),
        OVERLAP,
    ),
    Mutant(
        "overlap-late-result",
        "a plain fault",
        "the result under way of a request that has ended counts: it ends twice",
        ("INV-ANSWER", "INV-STEP"),
        swap(scheduler=LateResult),
        OVERLAP,
    ),
    Mutant(
        "overlap-late-free",
        "a plain fault",
        "what the batch after a turn's last one computed is freed when its result comes; the "
        "slot owns it",
        ("INV-OWNER", "INV-SUM-FULL"),
        swap(scheduler=LateFree),
        OVERLAP,
    ),
    Mutant(
        "overlap-no-trim",
        "a plain fault",
        "a save trims what a draft left and not what was computed ahead",
        ("INV-COVER", "INV-STEP"),
        swap(cache=TrimsDraftsOnly),
        OVERLAP,
    ),
    Mutant(
        "overlap-stale-input",
        "a plain fault",
        "a round begins with the last token that is known, not with the one under way",
        ("INV-CONTENT",),
        swap(rounds=StaleInput),
        OVERLAP,
    ),
    Mutant(
        "overlap-retracts-unheard",
        "a plain fault",
        "a request whose first token is under way is retracted: it begins again, for ever",
        ("INV-PROGRESS",),
        swap(scheduler=RetractsUnheard),
        OVERLAP,
    ),
)
