"""Formulas and names in TLA+."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof_model.spec import state
from slotproof_model.text.idioms import KINDS, PHASES, Form
from slotproof_model.text.render import symbol

WIDTH = 96
_LEVEL = {
    "if": 0, "implies": 1, "iff": 2, "and": 3, "or": 3, "not": 4, "chain": 5, "equal": 5,
    "different": 5, "sum": 10,
}  # fmt: skip
_ATOM = 20
WORDS = {
    **{name: f"Kind{name.capitalize()}" for name in KINDS.values()},
    **{name: f"Phase{name.capitalize()}" for name in PHASES.values()},
    "no_row": "NoRow",
}


def identifier(name: str) -> str:
    """Return the TLA+ name of a variable of the spec.

    >>> identifier("slot.C"), identifier("config.width"), identifier("T-ABORT-WAITING")
    ('slot_C', 'width', 'T_ABORT_WAITING')
    """
    return symbol(name).replace(".", "_").replace("-", "_")


def at(shape: Form, level: int) -> str:
    r"""Return one line of TLA+, in parentheses if its operators bind more loosely than the level.

    >>> from slotproof_model.spec.invariants import ORDER
    >>> from slotproof_model.text.idioms import form
    >>> at(form(ORDER.conjuncts["slot"]), 0)
    '0 <= slot_Q /\\ slot_Q <= slot_C /\\ slot_C <= slot_A /\\ slot_A <= width'
    """
    text = _text(shape)
    own = _LEVEL.get(shape.shape, _ATOM)
    binding = _ATOM if text.startswith("IfSwa(") and shape.shape == "if" else own
    if shape.shape in ("chain", "equal") and len(shape.parts) > 2:
        binding = 3  # written as a conjunction
    return text if binding >= level else f"({text})"


def _text(shape: Form) -> str:  # one case per shape
    parts = shape.parts
    prime = "'" if shape.after else ""
    match shape.shape:
        case "variable":
            return identifier(shape.text) + prime
        case "named":
            assert shape.named is not None
            return shape.named.symbol + prime
        case "number":
            return shape.text
        case "truth":
            return shape.text.upper()
        case "word":
            return WORDS[shape.text]
        case "min" | "max" | "cut" | "ceil" | "floor" | "aligned":
            return f"{shape.shape.capitalize()}({', '.join(map(_text, parts))})"
        case "if":
            if parts[0].text == state.config.swa.name and parts[2].text == "0":
                return f"IfSwa({_text(parts[1])})"
            test, then, other = (at(part, 1) for part in parts)
            return f"IF {test} THEN {then} ELSE {other}"
        case "sum":
            first, *rest = (at(part, 11) for part in parts)
            text = f"0 - {first}" if shape.text[0] == "-" else first
            return text + "".join(
                f" {sign} {part}" for sign, part in zip(shape.text[1:], rest, strict=True)
            )
        case "not":
            return "~" + at(parts[0], _ATOM)
        case "iff":
            return " <=> ".join(at(part, 3) for part in parts)
        case "implies":
            return f"{at(parts[0], 2)} => {at(parts[1], 2)}"
        case "and" | "or":
            sign = " /\\ " if shape.shape == "and" else " \\/ "
            return sign.join(_operand(shape, part) for part in parts)
        case "equal":
            *sides, value = (at(part, 6) for part in parts)
            return " /\\ ".join(f"{side} = {value}" for side in sides)
        case "different":
            return " # ".join(at(part, 6) for part in parts)
        case "chain":
            sides = [at(part, 6) for part in parts]
            pairs = zip(sides, shape.text, sides[1:], strict=False)
            return " /\\ ".join(f"{a} {_sign(sign)} {b}" for a, sign, b in pairs)
    raise AssertionError(shape.shape)


def _sign(sign: str) -> str:
    return "<=" if sign == "≤" else "<"


def _operand(outer: Form, inner: Form) -> str:
    """Return an operand. Comparison chains need parentheses in a disjunction only."""
    many = inner.shape in ("chain", "equal") and len(inner.parts) > 2
    return _text(inner) if many and outer.shape == "and" else at(inner, 4)


def bullets(shape: Form, indent: int) -> list[str]:
    """Return a conjunction as a TLA+ list. Parts longer than a line become lists too."""
    pad = " " * indent
    if shape.shape in ("and", "or"):
        bullet = "/\\ " if shape.shape == "and" else "\\/ "
        lines = []
        for part in _pairs(shape, WIDTH - indent - 3):
            many = part.shape in ("chain", "equal") and len(part.parts) > 2
            whole = _text(part) if many and shape.shape == "and" else at(part, 3)
            if indent + 3 + len(whole) <= WIDTH or part.shape not in ("and", "or", "implies"):
                lines.append(f"{pad}{bullet}{whole}")
            else:
                inner = bullets(part, indent + 3)
                lines += [pad + bullet + inner[0].lstrip(), *inner[1:]]
        return lines
    whole = _text(shape)
    if shape.shape == "implies" and indent + len(whole) > WIDTH:
        premise, conclusion = shape.parts
        first = [f"{pad}{at(premise, 2)} =>"]
        if len(first[0]) > WIDTH and premise.shape == "and":
            first = bullets(premise, indent + 1)
            first = [f"{pad}({first[0].lstrip()}", *first[1:-1], first[-1] + ") =>"]
        return first + bullets(conclusion, indent + 4)
    return [pad + whole]


def _pairs(shape: Form, width: int) -> Iterator[Form]:
    """Yield a conjunction's parts, with comparison chains longer than a line split into pairs."""
    for part in shape.parts:
        if shape.shape == "and" and part.shape == "chain" and len(_text(part)) > width:
            for index, sign in enumerate(part.text):
                yield Form("chain", part.parts[index : index + 2], sign)
        else:
            yield part
