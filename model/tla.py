r"""The spec as a TLA+ module, written from the same tree as everything else.

One session with its slot and its turn, or one request without a session; all other
actors are constants (the frame). The page layer is stated (``INV_OWNER``), not carried
along. A test reads the module back with a parser of TLA+ and evaluates it beside the spec.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from slotproof.model import state
from slotproof.model.expr import Expr, Sort, Var, conj, variables
from slotproof.model.idioms import KINDS, PHASES, Form, form, words_of
from slotproof.model.invariant import Invariant, Kind
from slotproof.model.invariants import INVARIANTS
from slotproof.model.named import Named, named
from slotproof.model.transition import Transition
from slotproof.model.transitions import TRANSITIONS

MODULE = "Slotproof"
WIDTH = 96
_TOTALS = (state.full.total, state.swa.total, state.rows.total)
_PAGE = tuple(var.name for var in state.PAGE)
_LEVEL = {
    "if": 0, "implies": 1, "iff": 2, "and": 3, "or": 3, "not": 4, "chain": 5, "equal": 5,
    "different": 5, "sum": 10,
}  # fmt: skip
_ATOM = 20
_WORDS = {
    **{name: f"Kind{name.capitalize()}" for name in KINDS.values()},
    **{name: f"Phase{name.capitalize()}" for name in PHASES.values()},
    "no_row": "NoRow",
}
_RENAMED = {"config.window": "W", "config.swa": "has_swa"}


def identifier(name: str) -> str:
    """A variable of the spec as a name of TLA+.

    >>> identifier("slot.C"), identifier("config.width"), identifier("T-ABORT-WAITING")
    ('slot_C', 'width', 'T_ABORT_WAITING')
    """
    if name in _RENAMED:
        return _RENAMED[name]
    name = name.removeprefix("config.").removeprefix("param.")
    return name.replace(".", "_").replace("-", "_")


# Formulas ------------------------------------------------------------------


def formula(expr: Expr, words: dict[int, str] | None = None, name_it: bool = True) -> str:
    r"""One line of TLA+.

    >>> from slotproof.model.invariants import ORDER
    >>> formula(ORDER.conjuncts["slot"])
    '0 <= slot_Q /\\ slot_Q <= slot_C /\\ slot_C <= slot_A /\\ slot_A <= width'
    """
    return _text(form(expr, words, name_it))


def _at(shape: Form, level: int) -> str:
    text = _text(shape)
    mine = _ATOM if text.startswith("IfSwa(") and shape.shape == "if" else _level(shape)
    if shape.shape in ("chain", "equal") and len(shape.parts) > 2:
        mine = 3  # written as a conjunction
    return text if mine >= level else f"({text})"


def _text(shape: Form) -> str:  # one case per shape
    parts = shape.parts
    prime = "'" if shape.after else ""
    match shape.shape:
        case "variable":
            return identifier(shape.text) + prime
        case "named":
            assert shape.named is not None
            return _call(shape.named) + prime
        case "number":
            return shape.text
        case "truth":
            return shape.text.upper()
        case "word":
            return _WORDS[shape.text]
        case "min" | "max" | "cut" | "ceil" | "floor" | "aligned":
            return f"{shape.shape.capitalize()}({', '.join(map(_text, parts))})"
        case "if":
            if parts[0].text == state.config.swa.name and parts[2].text == "0":
                return f"IfSwa({_text(parts[1])})"
            test, then, other = (_at(each, 1) for each in parts)
            return f"IF {test} THEN {then} ELSE {other}"
        case "sum":
            first, *rest = (_at(each, 11) for each in parts)
            text = f"0 - {first}" if shape.text[0] == "-" else first
            return text + "".join(
                f" {sign} {part}" for sign, part in zip(shape.text[1:], rest, strict=True)
            )
        case "not":
            return "~" + _at(parts[0], _ATOM)
        case "iff":
            return " <=> ".join(_at(each, 3) for each in parts)
        case "implies":
            return f"{_at(parts[0], 2)} => {_at(parts[1], 2)}"
        case "and" | "or":
            sign = " /\\ " if shape.shape == "and" else " \\/ "
            return sign.join(_operand(shape, each) for each in parts)
        case "equal":
            *sides, value = (_at(each, 6) for each in parts)
            return " /\\ ".join(f"{side} = {value}" for side in sides)
        case "different":
            return " # ".join(_at(each, 6) for each in parts)
        case "chain":
            sides = [_at(each, 6) for each in parts]
            pairs = zip(sides, shape.text, sides[1:], strict=False)
            return " /\\ ".join(f"{a} {_sign(sign)} {b}" for a, sign, b in pairs)
    raise AssertionError(shape.shape)


def _sign(sign: str) -> str:
    return "<=" if sign == "≤" else "<"


def _operand(outer: Form, inner: Form) -> str:
    """In a conjunction chains need no parentheses, in a disjunction they do."""
    many = inner.shape in ("chain", "equal") and len(inner.parts) > 2
    return _text(inner) if many and outer.shape == "and" else _at(inner, 4)


def _call(term: Named) -> str:
    page = _page_of(term.expr)
    return term.symbol + (f"({', '.join(page)})" if page else "")


def _page_of(expr: Expr) -> tuple[str, ...]:
    """The variables of the arbitrary page: arguments of what speaks of it."""
    used = variables(expr)
    return tuple(identifier(name) for name in _PAGE if name in used)


def _bullets(shape: Form, indent: int) -> list[str]:
    """A conjunction as a list, its long parts broken again."""
    pad = " " * indent
    if shape.shape in ("and", "or"):
        bullet = "/\\ " if shape.shape == "and" else "\\/ "
        lines = []
        for part in _pairs(shape, WIDTH - indent - 3):
            many = part.shape in ("chain", "equal") and len(part.parts) > 2
            whole = _text(part) if many and shape.shape == "and" else _at(part, 3)
            if indent + 3 + len(whole) <= WIDTH or part.shape not in ("and", "or", "implies"):
                lines.append(f"{pad}{bullet}{whole}")
            else:
                inner = _bullets(part, indent + 3)
                lines += [pad + bullet + inner[0].lstrip(), *inner[1:]]
        return lines
    whole = _text(shape)
    if shape.shape == "implies" and indent + len(whole) > WIDTH:
        premise, conclusion = shape.parts
        first = [f"{pad}{_at(premise, 2)} =>"]
        if len(first[0]) > WIDTH and premise.shape == "and":
            first = _bullets(premise, indent + 1)
            first = [f"{pad}({first[0].lstrip()}", *first[1:-1], first[-1] + ") =>"]
        return first + _bullets(conclusion, indent + 4)
    return [pad + whole]


def _pairs(shape: Form, width: int) -> Iterator[Form]:
    """The parts of a conjunction, chains that are too long for a line pair by pair."""
    for part in shape.parts:
        if shape.shape == "and" and part.shape == "chain" and len(_text(part)) > width:
            for at, sign in enumerate(part.text):
                yield Form("chain", part.parts[at : at + 2], sign)
        else:
            yield part


def _level(shape: Form) -> int:
    return _LEVEL.get(shape.shape, _ATOM)


# The module ------------------------------------------------------------------

_GROUPS: tuple[tuple[str, str], ...] = (
    ("Pools", "full"), ("SwaPool", "swa"), ("Rows", "rows"), ("Session", "session"),
    ("Slot", "slot"), ("Turn", "turn"),
)  # fmt: skip


def _groups() -> dict[str, tuple[str, ...]]:
    """State variables by group; totals never change, so they are constants."""
    names = [var.name for var in state.STATE if var not in frozenset(_TOTALS)]
    return {
        title: tuple(name for name in names if name.startswith(prefix + "."))
        for title, prefix in _GROUPS
    }


def module() -> str:
    """The text of ``Slotproof.tla``.

    >>> module().splitlines()[1]
    'EXTENDS Integers'
    """
    return "\n".join(_module()) + "\n"


def _module() -> Iterator[str]:
    yield f" MODULE {MODULE} ".center(78, "-")
    yield "EXTENDS Integers"
    yield ""
    yield from _comment(
        "The accounting of a session slot's KV in an LLM serving engine. Generated from "
        "slotproof's model/ by `slotproof docs --tla`: do not edit. Lengths and figures are "
        "tokens. One session with its slot and turn, or one request without a session, is "
        "written out; all other actors are the constants frame_*, which no step changes."
    )
    yield ""
    yield "CONSTANTS"
    constants = ["P", "Tokens"]
    constants += [identifier(var.name) for var in (*state.CONFIG, *_TOTALS, *state.FRAME)]
    yield from _wrapped(constants, "  ")
    yield ""
    groups = _groups()
    yield "VARIABLES"
    yield from _wrapped([identifier(name) for each in groups.values() for name in each], "  ")
    yield ""
    for title, names in groups.items():
        yield from _tuple(title, map(identifier, names))
    yield f"vars == <<{', '.join(groups)}>>"
    yield ""
    yield from _vocabulary()
    yield from _section("Terms with a name")
    for term in named():
        yield f"\\* {term.sentence}"
        yield f"{_call(term)} =="
        yield from _bullets(form(term.expr, name_it=False), 2)
        yield ""
    yield from _section("Transitions")
    for transition in TRANSITIONS.values():
        yield from _transition(transition, groups)
        yield ""
    yield from _behaviour(groups)
    yield from _section("Invariants of a state")
    of_state = [each for each in INVARIANTS.values() if each.kind is Kind.STATE]
    of_step = [each for each in INVARIANTS.values() if each.kind is Kind.STEP]
    for invariant in of_state:
        yield from _invariant(invariant)
    yield from _section("Invariants of a step")
    for invariant in of_step:
        yield from _invariant(invariant)
    yield "Steps =="
    yield "  [][" + " /\\ ".join(identifier(each.id) for each in of_step[:3])
    for at in range(3, len(of_step), 3):
        yield "     /\\ " + " /\\ ".join(identifier(each.id) for each in of_step[at : at + 3])
    yield "    ]_vars"
    yield "=" * 78


def _vocabulary() -> Iterator[str]:
    yield from _section("Words")
    for number, name in KINDS.items():
        yield f"{_WORDS[name]} == {number}"
    for number, name in PHASES.items():
        yield f"{_WORDS[name]} == {number}"
    yield f"NoRow == {state.NO_ROW}"
    yield ""
    yield "Min(a, b) == IF a <= b THEN a ELSE b"
    yield "Max(a, b) == IF a >= b THEN a ELSE b"
    yield "IfSwa(n) == IF has_swa THEN n ELSE 0"
    yield "Floor(x) == (x \\div P) * P"
    yield "Ceil(x) == Floor(x + P - 1)"
    yield "Aligned(x) == Floor(x) = x"
    yield "\\* keep n positions; inside a page that has given back its window's KV, whole pages"
    yield "Cut(n, E) == IF E <= n THEN n ELSE Floor(n)"
    yield ""


def _transition(transition: Transition, groups: dict[str, tuple[str, ...]]) -> Iterator[str]:
    sources = f" {transition.source}" if transition.source else ""
    yield from _comment(f"{transition.id}. {transition.sentence}{sources}")
    params = ", ".join(identifier(each.name) for each in transition.params)
    yield identifier(transition.id) + (f"({params})" if params else "") + " =="
    for name, expr in transition.full_guard.items():
        yield f"  \\* guard: {name}"
        yield from _conjunct(form(expr))
    effect = transition.full_effect
    if effect:
        yield "  \\* effect"
    for name, expr in effect.items():
        yield f"  /\\ {identifier(name)}' = {_value(name, expr)}"
    kept = _kept(effect, groups)
    if kept:
        lines = textwrap.wrap(", ".join(kept), 74)
        yield "  /\\ UNCHANGED <<" + ("\n" + " " * 18).join(lines) + ">>"
    if transition.detaches:
        yield f"  \\* a request goes on alone, another actor: {transition.detaches}"


def _value(name: str, expr: Expr) -> str:
    return _at(form(expr, words_of(name)), 6)


def _conjunct(shape: Form) -> list[str]:
    """A conjunct of a transition as one or more bullets of its list."""
    if shape.shape == "and":
        return _bullets(shape, 2)
    return _bullets(Form("and", (shape,)), 2)


def _kept(effect: Iterable[str], groups: dict[str, tuple[str, ...]]) -> list[str]:
    written = set(effect)
    kept: list[str] = []
    for title, names in groups.items():
        free = [name for name in names if name not in written]
        kept += [title] if len(free) == len(names) else map(identifier, free)
    return kept


def _behaviour(groups: dict[str, tuple[str, ...]]) -> Iterator[str]:
    yield from _section("Behaviour")
    yield "Init =="
    of = {var.name: var for var in state.STATE}
    for name in (name for names in groups.values() for name in names):
        yield f"  /\\ {identifier(name)} = {_initially(of[name])}"
    yield ""
    yield "Next =="
    for transition in TRANSITIONS.values():
        names = [identifier(each.name) for each in transition.params]
        call = identifier(transition.id) + (f"({', '.join(names)})" if names else "")
        tokens = [name for name in names if name != "row"]
        bound = [f"{', '.join(tokens)} \\in Tokens"] if tokens else []
        bound += ["row \\in 0 .. rows_total - 1"] if "row" in names else []
        yield "  \\/ " + (f"\\E {', '.join(bound)} : {call}" if bound else call)
    yield ""
    yield "Spec == Init /\\ [][Next]_vars"
    yield ""


def _initially(var: Var) -> str:
    if var.sort is Sort.BOOL:
        return "FALSE"
    group, _, field = var.name.partition(".")
    if field in ("available", "free"):
        return f"{group}_total"
    words = words_of(var.name)
    return _WORDS[words[min(words)]] if words else "0"


def _invariant(invariant: Invariant) -> Iterator[str]:
    yield from _comment(f"{invariant.id}. {invariant.sentence}")
    if not invariant.conjuncts:
        yield "\\* No formula: " + "; ".join(invariant.observed.values())
        yield ""
        return
    calls = []
    for name, expr in invariant.conjuncts.items():
        page = _page_of(expr)
        head = f"{identifier(invariant.id)}_{name}" + (f"({', '.join(page)})" if page else "")
        calls.append(head)
        yield f"{head} =="
        yield from _bullets(form(expr), 2)
    page = _page_of(conj(*invariant.conjuncts.values()))
    pools = ("full", "swa") if page else ("",)
    for pool in pools:  # a page lies in one pool: one conjunct is about the other
        mine = [each for each in calls if not page or _of_pool(each, pool)]
        title = identifier(invariant.id) + (f"_of_{pool}({', '.join(page)})" if pool else "")
        yield f"{title} =="
        yield from (f"  /\\ {call}" for call in mine)
    yield ""


def _of_pool(call: str, pool: str) -> bool:
    name = call.partition("(")[0].rpartition("_")[2]
    return name not in ("full", "swa") or name == pool


def _section(title: str) -> Iterator[str]:
    yield "-" * 78
    yield f"(* {title} *)"
    yield ""


def _comment(text: str) -> Iterator[str]:
    lines = textwrap.wrap(text, 72)
    for index, line in enumerate(lines):
        lead = "(* " if not index else "   "
        yield lead + line + (" *)" if index == len(lines) - 1 else "")


def _wrapped(names: Iterable[str], pad: str) -> list[str]:
    return [pad + line for line in textwrap.wrap(", ".join(names), 76)]


def _tuple(title: str, names: Iterable[str]) -> Iterator[str]:
    lines = textwrap.wrap(", ".join(names), 64)
    yield f"{title} == <<" + ("\n" + " " * (len(title) + 6)).join(lines) + ">>"


# A small model ----------------------------------------------------------------

_SMALL = {
    "P": 2, "Tokens": "{0, 1, 2}", "has_swa": False, "W": 0, "width": 3, "reserve": 1,
    "aligned_reuse": False, "retract_keeps": True, "abort_publishes": False, "full_total": 4,
    "swa_total": 0, "rows_total": 1,
}  # fmt: skip


def configuration() -> str:
    """The text of ``Slotproof.cfg``: one session alone, two pages of two tokens.

    >>> "INVARIANT INV_ONCE" in configuration()
    True
    """
    values = {**_SMALL, **{identifier(var.name): 0 for var in state.FRAME}}
    lines = [
        "\\* A small model for TLC: one session alone, two pages of two tokens, one row.",
        "\\* Generated by `slotproof docs --tla`: do not edit.",
        "SPECIFICATION Spec",
        "CONSTANTS",
    ]
    lines += [f"  {name} = {_literal(value)}" for name, value in values.items()]
    lines += [
        f"INVARIANT {identifier(each.id)}"
        for each in INVARIANTS.values()
        if each.kind is Kind.STATE
        and each.conjuncts
        and not any(map(_page_of, each.conjuncts.values()))
    ]
    return "\n".join([*lines, "PROPERTY Steps"]) + "\n"


def _literal(value: object) -> str:
    return str(value).upper() if isinstance(value, bool) else str(value)
