"""A trace as Markdown for an issue, and as one HTML file that is ready to print and needs no other
file.

A trace is untrusted. The templates escape all text of a trace, and put none of it into the script.
The HTML file's content security policy allows only slotproof's script, identified by its hash.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from slotproof.engines.registry import is_ours
from slotproof.lockstep.observation import TERMS, Violation
from slotproof.reports import scripted, sentences, text
from slotproof.reports.equation import Sum
from slotproof.reports.localisation import suspects
from slotproof.reports.sequence import LANES
from slotproof.reports.view import Step, View
from slotproof.support.markup import digest, templates
from slotproof.support.terminal import plain
from slotproof.traces.record import place
from slotproof.traces.spec_trace import ASSUMED, checked
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.text.render import block

MOST = 400
"""Maximum number of last steps that an HTML file shows, so that browsers can open the file."""


def html(view: View, path: str = "TRACE") -> str:
    """Return the HTML file. Its commands name the trace file ``path``."""
    return _rendered(
        "counterexample.html.jinja",
        view,
        path,
        steps=view.steps[-MOST:],
        left_out=max(0, len(view.steps) - MOST),
        lanes=LANES,
        place=place,
        sums=lambda step: list(_sums(step)),
        path=path,
        quoted=plain(shlex.quote(path)),
        found_on=plain(shlex.quote(view.trace.found_on)),
        test_name=scripted.name_of(view.trace),
        ours=is_ours(view.trace.found_on),
        **_script(),
    )


def spec_html(document: Any) -> str:
    """Return the HTML file of a trace of the spec. Raises :class:`BadTrace`."""
    trace = checked(document)
    template = templates("reports").get_template("spec.html.jinja")
    return template.render(
        trace=trace,
        formula=[] if trace.formula is None else block(trace.formula),
        violations=[Violation(*clause.partition(".")[::2], "") for clause in trace.violated],
        sentences=sentences,
        assumed=trace.steps[0].transition == ASSUMED,
        TRANSITIONS=TRANSITIONS,
        **_script(),
    )


def _script() -> dict[str, str]:
    script = files("slotproof.reports").joinpath("counterexample.js").read_text(encoding="utf-8")
    # The script is slotproof's own. Nothing of a trace is in it.
    return {"script": Markup(script), "digest": digest(script)}  # noqa: S704


def markdown(view: View, path: str = "TRACE") -> str:
    """Return the Markdown document. Its replay command names the trace file ``path``."""
    return _rendered("counterexample.md.jinja", view, path)


def _rendered(template: str, view: View, again_of: str, **values: Any) -> str:
    trace = view.trace
    page = templates("reports").get_template(template)
    return page.render(
        values,
        view=view,
        trace=trace,
        recorded=trace.recorded,
        sentences=sentences,
        text=text,
        suspects=suspects(view),
        terms=TERMS,
        again=text.again(trace, again_of),
        test="" if trace.recorded else scripted.render(trace),
    )


def _sums(step: Step) -> Iterator[tuple[str, Sum]]:
    """Yield the equations of a step, each with a label that no other equation of the step has."""
    for pool in step.pools if step.ran and not step.frame.carried else ():
        name = [pool.name] if len(step.pools) > 1 else []
        if pool.owned:
            yield ": ".join(name + ([] if pool.agree else ["ownership"])), pool.owned
        if pool.reported and not (pool.owned and pool.agree):
            yield ": ".join([*name, "its own check"]), pool.reported
