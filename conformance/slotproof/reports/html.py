"""A trace as one HTML page: nothing to load, readable from disk and on paper.

A trace is untrusted. The template escapes all of it, puts none into the script, and the
page's own policy lets no other script run than the one that is named by its hash.
"""

from __future__ import annotations

import shlex
from importlib.resources import files

from markupsafe import Markup

from slotproof.engines.registry import is_ours
from slotproof.lockstep.observation import TERMS
from slotproof.reports import scripted, sentences, wording
from slotproof.reports.equation import Sum
from slotproof.reports.localisation import suspects
from slotproof.reports.sequence import LANES
from slotproof.reports.step import Step
from slotproof.reports.text import LATER, again, as_if, last_said
from slotproof.reports.view import View
from slotproof.support.markup import digest, templates
from slotproof.support.terminal import plain
from slotproof.traces.record import place

MOST = 400
"""Steps shown at most, the last ones: a page has to open."""


def render(view: View, path: str = "TRACE") -> str:
    """The whole page. ``path`` is the file to name in the commands."""
    script = files("slotproof.reports").joinpath("counterexample.js").read_text(encoding="utf-8")
    steps = view.steps[-MOST:]
    trace = view.trace
    return (
        templates("reports")
        .get_template("counterexample.html.jinja")
        .render(
            view=view,
            trace=trace,
            recorded=trace.recorded,
            later_words=LATER,
            place=place,
            steps=steps,
            left_out=len(view.steps) - len(steps),
            last=steps[-1],
            headline=sentences.headline(view),
            kind=sentences.kind(view),
            detail=sentences.detail(view),
            whose=sentences.whose(view),
            sentence=sentences.sentence,
            clause_words=wording.clause_words,
            said=lambda violation: list(map(plain, last_said(violation))),
            as_if=as_if(trace) if trace.explained is not None else "",
            suspects=suspects(view),
            lanes=LANES,
            terms=TERMS,
            again=again(trace, path),
            path=path,
            quoted=plain(shlex.quote(path)),
            found_on=plain(shlex.quote(trace.found_on)),
            sums=_sums,
            code="" if trace.recorded else scripted.render(trace),
            test=scripted.name_of(trace),
            ours=is_ours(trace.found_on),
            script=Markup(script),  # noqa: S704  # ours; nothing of the trace is in it
            digest=digest(script),
        )
    )


def _sums(step: Step) -> list[tuple[str, Sum]]:
    """The equations of a row of the table, each with what tells them apart."""
    if not step.ran or step.frame.carried:
        return []
    result = []
    for pool in step.pools:
        name = [pool.name] if len(step.pools) > 1 else []
        if pool.owned:
            result.append((": ".join(name + ([] if pool.agree else ["ownership"])), pool.owned))
        if pool.reported and not (pool.owned and pool.agree):
            result.append((": ".join([*name, "its own check"]), pool.reported))
    return result
