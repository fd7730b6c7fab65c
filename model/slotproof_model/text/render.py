"""The render reading: formulas as text for a reviewer.

>>> from slotproof_model.spec.transitions import T_PARK
>>> formula(T_PARK.guard["unfinished"])
'req.C < known'
>>> new_value("req.phase", T_PARK.effect["req.phase"])
'parked'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from slotproof_model.spec.expr import App, Const, Expr
from slotproof_model.spec.memory import EMPTY, Interval, Mem, Move
from slotproof_model.spec.transition import Transition
from slotproof_model.text.idioms import Form, form, words_of

WIDTH = 92
"""Maximum characters per line. A longer formula is broken at its outermost connective."""

_SYMBOLS = {"config.window": "W", "config.swa": "has_swa"}
_LEVEL = {
    "if": 0, "iff": 1, "implies": 2, "or": 3, "and": 4, "chain": 5, "equal": 5, "different": 5,
    "aligned": 5, "sum": 6, "not": 7,
}  # fmt: skip
_ATOM = 9


def symbol(name: str) -> str:
    """Return a variable's short symbol.

    >>> symbol("config.width"), symbol("param.u"), symbol("slot.C")
    ('width', 'u', 'slot.C')
    """
    if name in _SYMBOLS:
        return _SYMBOLS[name]
    for group in ("config.", "param.", "given."):
        name = name.removeprefix(group)
    return name


def formula(expr: Expr, written_out: bool = False) -> str:
    """Return the formula in one line. With ``written_out``, definitions replace named terms.

    >>> from slotproof_model.spec.expr import Var, floor_page, implies
    >>> x, y = Var("x"), Var("y")
    >>> formula(implies((x >= 0) & (floor_page(x) == x) & (x <= y), y - (x + 1) > 2))
    '0 ≤ x ≤ y ∧ P ∣ x ⇒ y − (x + 1) > 2'
    """
    return _text(form(expr, name_it=not written_out))


def new_value(variable: str, expr: Expr) -> str:
    """Return the value assigned to the variable, with kinds and phases by name."""
    return _text(form(expr, words_of(variable)))


def block(expr: Expr, width: int = WIDTH) -> list[str]:
    """Return the formula in lines of at most ``width`` characters, if it can be broken.

    >>> from slotproof_model.spec.invariants import ORDER
    >>> block(ORDER.conjuncts["slot"], width=20)
    ['0 ≤ slot.Q ≤ slot.C ≤ slot.A ≤ width']
    """
    return _lines(form(expr), width)


def _lines(shape: Form, width: int) -> list[str]:
    whole = _text(shape)
    if len(whole) <= width or shape.shape not in ("and", "or", "implies"):
        return [whole]
    level = _LEVEL[shape.shape]
    if shape.shape == "implies":
        premise, conclusion = (_part(side, level + 1, width - 2) for side in shape.parts)
        return [*premise[:-1], premise[-1] + " ⇒", *("    " + line for line in conclusion)]
    sign = "∧" if shape.shape == "and" else "∨"
    lines = []
    for index, part in enumerate(shape.parts):
        inner = _part(part, _tight(shape, part), width - 2)
        lines.append((f"{sign} " if index else "  ") + inner[0])
        lines += ["  " + line for line in inner[1:]]
    return lines


def _part(shape: Form, level: int, width: int) -> list[str]:
    """Return the lines of an operand, in parentheses if needed."""
    if _LEVEL.get(shape.shape, _ATOM) >= level:
        return _lines(shape, width)
    lines = _lines(shape, width - 1)
    if len(lines) > 1:
        lines = [("(" if not index else " ") + line for index, line in enumerate(lines)]
        return [*lines[:-1], lines[-1] + ")"]
    return [f"({lines[0]})"]


def _tight(outer: Form, inner: Form) -> int:
    """Return the level of an operand. For readers, ∧ inside ∨ gets parentheses."""
    mixed = outer.shape == "or" and inner.shape == "and"
    return _ATOM if mixed else _LEVEL[outer.shape] + 1


def _at(shape: Form, level: int) -> str:
    text = _text(shape)
    return text if _LEVEL.get(shape.shape, _ATOM) >= level else f"({text})"


def _text(shape: Form) -> str:  # one case per shape
    parts = shape.parts
    prime = "'" if shape.after else ""
    match shape.shape:
        case "variable":
            return symbol(shape.text) + prime
        case "named" | "number" | "truth" | "word":
            return shape.text.replace("-", "−") + prime
        case "min" | "max" | "cut":
            return f"{shape.shape}({', '.join(map(_text, parts))})"
        case "ceil":
            inner = _text(parts[0])
            return "P" if inner == "1" else f"⌈{inner}⌉"  # the tokens of one page
        case "floor":
            return f"⌊{_text(parts[0])}⌋"
        case "if":
            test, then, other = (_at(part, 1) for part in parts)
            return f"if {test} then {then} else {other}"
        case "sum":
            return _sum(shape)
        case "not":
            return "¬" + _at(parts[0], _ATOM if parts[0].shape != "not" else 7)
        case "iff":
            return " ⇔ ".join(_at(part, 2) for part in parts)
        case "implies":
            return f"{_at(parts[0], 3)} ⇒ {_at(parts[1], 2)}"
        case "and" | "or":
            sign = " ∧ " if shape.shape == "and" else " ∨ "
            return sign.join(_at(part, _tight(shape, part)) for part in parts)
        case "equal" | "different":
            sign = " = " if shape.shape == "equal" else " ≠ "
            return sign.join(_at(part, 6) for part in parts)
        case "aligned":
            return f"P ∣ {_at(parts[0], 6)}"
        case "chain":
            return _chain(shape)
    raise AssertionError(shape.shape)


def _sum(shape: Form) -> str:
    first, *rest = shape.parts
    signs = shape.text.replace("-", "−")
    text = ("−" if signs[0] == "−" else "") + _at(first, 7 if signs[0] == "−" else 6)
    for sign, part in zip(signs[1:], rest, strict=True):
        text += f" {sign} {_at(part, 7)}"
    return text


def _chain(shape: Form) -> str:
    """Return a chain. In a single comparison, a number is on the right: m ≥ 0, not 0 ≤ m."""
    parts = [_at(part, 6) for part in shape.parts]
    literal = ("number", "word")
    if len(parts) == 2 and shape.parts[0].shape in literal and shape.parts[1].shape not in literal:
        return f"{parts[1]} {'≥' if shape.text == '≤' else '>'} {parts[0]}"
    text = parts[0]
    for sign, part in zip(shape.text, parts[1:], strict=True):
        text += f" {sign} {part}"
    return text


# Transitions -----------------------------------------------------------------


@dataclass(frozen=True)
class MoveText:
    """A memory move in words."""

    name: str
    what: str
    """Source and destination: ``row → free list``."""
    full: str
    swa: str
    """``full`` and ``swa``: interval or number of tokens in the pool. Empty if none."""


def moves(transition: Transition) -> list[MoveText]:
    """Return the memory moves, as intervals of the row or as lengths.

    >>> from slotproof_model.spec.transitions import T_DECODE
    >>> moves(T_DECODE)[0].full
    '[⌈req.A⌉, ⌈req.A + d⌉)'
    """
    short = _shortener(transition)
    return [_move(mem, short) for mem in transition.memory]


def cut_of(transition: Transition) -> str:
    """Return the cut that formulas call ``end``, or an empty string if there is no single cut.

    >>> from slotproof_model.spec.transitions import T_RESTORE
    >>> cut_of(T_RESTORE)
    'cut(reusable, slot.E)'
    """
    cuts = {
        _text(shape)
        for expr in transition.effect.values()
        for shape in _forms(form(expr))
        if shape.shape == "cut"
    }
    return cuts.pop() if len(cuts) == 1 else ""


def _forms(shape: Form) -> Iterator[Form]:
    yield shape
    for part in shape.parts:
        yield from _forms(part)


def room_of(transition: Transition) -> str:
    """Return the memory that remains after a cut (``room`` in formulas), or an empty string.

    >>> from slotproof_model.spec.transitions import T_RESTORE
    >>> room_of(T_RESTORE)
    'if keeps_slack ∧ slot.E ≤ reusable then slot.A else end'
    """
    cut = cut_of(transition)
    rooms = {
        _text(shape).replace(cut, "end")
        for expr in transition.effect.values()
        for shape in _forms(form(expr))
        if cut and shape.shape == "if" and _text(shape.parts[-1]) == cut
    }
    return rooms.pop() if len(rooms) == 1 else ""


def _shortener(transition: Transition) -> Callable[[str], str]:
    cut, room = cut_of(transition), room_of(transition)

    def short(text: str) -> str:
        text = text.replace(cut, "end") if cut else text
        return text.replace(room, "room") if room else text

    return short


def guard(transition: Transition, width: int = WIDTH) -> dict[str, list[str]]:
    """Return the lines of every guard conjunct by name, including conjuncts for memory moves.

    >>> from slotproof_model.spec.transitions import T_DECODE
    >>> guard(T_DECODE)["full_available"]
    ['max(0, ⌈req.A + d⌉ − ⌈req.A⌉) ≤ full.available']
    """
    short = _shortener(transition)
    return {
        name: [short(line) for line in block(expr, width)]
        for name, expr in transition.full_guard.items()
    }


def _move(mem: Mem, short: Callable[[str], str]) -> MoveText:
    name, what = mem.move.name.lower().replace("_", " "), mem.move.value
    if mem.move in (Move.TAKE_ROW, Move.GIVE_ROW):
        choice = mem.full.hi  # 1 if a condition holds, else 0
        assert isinstance(choice, App)
        condition = formula(choice.args[0])
        return MoveText(name, what, "one" if condition == "true" else f"one if {condition}", "")
    return MoveText(name, what, short(_interval(mem.full)), short(_interval(mem.swa)))


def _interval(span: Interval) -> str:
    if span is EMPTY:
        return ""
    low, high = formula(span.lo), formula(span.hi)
    return high if low == "0" else f"[{low}, {high})"


def signature(transition: Transition) -> str:
    """Return the transition with its parameters.

    >>> from slotproof_model.spec.transitions import T_DECODE
    >>> signature(T_DECODE)
    'T-DECODE(at, d, k, told)'
    """
    names = ", ".join(symbol(param.name) for param in transition.params)
    return transition.id + (f"({names})" if names else "")


def assignments(transition: Transition) -> list[tuple[tuple[str, ...], str]]:
    """Return the effect as (variables, new value), merging a group's variables set to one literal.

    >>> from slotproof_model.spec.transitions import T_CLOSE_DEFER
    >>> assignments(T_CLOSE_DEFER)
    [(('session.closing',), 'true')]
    """
    groups: dict[tuple[str, str], list[str]] = {}
    short = _shortener(transition)
    for name, expr in transition.effect.items():
        value = short(new_value(name, expr))
        group = name.partition(".")[0] if isinstance(expr, Const) else name
        groups.setdefault((group, value), []).append(symbol(name))
    return [(tuple(names), value) for (_, value), names in groups.items()]


def text(transition: Transition) -> str:
    """Return the whole transition as text: guard, memory moves and effect.

    >>> from slotproof_model.spec.transitions import T_PARK
    >>> print(text(T_PARK))
    T-PARK
      when   req.phase = running
           ∧ req.C < known
           ∧ answering ∧ req.rounds = 0
      then   req.phase' = parked
    """
    short = _shortener(transition)
    when = [short(shape) for expr in transition.guard.values() for shape in _conjunct(form(expr))]
    cut = cut_of(transition)
    memory = []
    for move in moves(transition):
        pools = [f"full {move.full}"] if move.full else []
        pools += [f"swa {move.swa}"] if move.swa else []
        memory.append(f"{move.name} {move.full if 'row' in move.name else ', '.join(pools)}")
    then = [" = ".join(f"{name}'" for name in names) + f" = {value}"
            for names, value in assignments(transition)]  # fmt: skip
    if transition.detaches:
        then.append(f"a request continues alone: {transition.detaches}")
    lines = [signature(transition)]
    lines += [("  when   " if not at else "       ∧ ") + line for at, line in enumerate(when)]
    lines += [f"  where  end = {cut}"] if cut else []
    room = room_of(transition)
    lines += [f"         room = {room}"] if room else []
    lines += [("  memory " if not at else "         ") + line for at, line in enumerate(memory)]
    lines += [("  then   " if not at else "         ") + line for at, line in enumerate(then)]
    return "\n".join(lines)


def _conjunct(shape: Form) -> list[str]:
    """Return the lines of a conjunct within a guard."""
    whole = _at(shape, _LEVEL["and"])
    if shape.shape == "and" and len(whole) > WIDTH - 9:
        return [_at(part, _LEVEL["and"] + 1) for part in shape.parts]
    return [whole]
