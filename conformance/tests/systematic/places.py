"""Systematic mutants: the reference engine with one place of its source changed, for every place.

A mutant is compiled from the syntax tree of a module and installed in the running process. It
replaces the function's ``__code__``, so code that imported or inherited the function has it too.
mutmut and cosmic-ray change files instead. They start a test command per mutant, importing torch
and hypothesis each time, and judge by its exit status.

Three kinds of code are left out. Code that only observes the engine: the model, the stamps of pages
and their readers, the page audit (off on a CPU). Code that no command reaches. Defaults and
constants of modules, assertions and texts of messages.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FunctionType
from typing import Any

PACKAGE = "slotproof_engine"
MODULES = {
    "admission": "scheduling.admission",
    "batch": "requests.batch",
    "checker": "scheduling.checker",
    "engine": "assembly.engine",
    "events": "base.events",
    "intake": "scheduling.intake",
    "kernels.plain_memory": "kernels.plain_memory",
    "kv_cache": "kv.kv_cache",
    "pool": "memory.pool",
    "req": "requests.req",
    "results": "requests.results",
    "rounds": "scheduling.rounds",
    "rows": "memory.rows",
    "scheduler": "scheduling.scheduler",
    "session_cache": "sessions.session_cache",
    "session_controller": "sessions.session_controller",
    "slot": "requests.slot",
    "tree": "memory.tree",
    "tree_cache": "sessions.tree_cache",
    "turn_queue": "sessions.turn_queue",
}
"""Path of a module, by its name in mutants. The names stay, because the draw depends on them."""
LEFT_OUT = (
    "Figures.__str__",
    "KVCache._private_pages",
    "KVCache.stamp_pages",
    "KVCache.verify_pages",
    "MemoryChecker._check_pages",
    "ReferenceEngine._stamps",
    "ReferenceEngine.content",
    "check_command",
    "freed_pages",
)
"""Functions without mutants: they only observe, refuse malformed commands, or serve benchmarks."""

Change = tuple[str, ast.AST]
"""An operator, and the replacement of a node."""


@dataclass(frozen=True)
class SystematicMutant:
    """One changed place. Its name does not depend on other lines."""

    name: str
    module: str
    function: str
    operator: str
    line: int
    _tree: ast.Module = field(repr=False, compare=False)
    _put: Callable[[ast.AST], None] = field(repr=False, compare=False)
    _old: ast.AST = field(repr=False, compare=False)
    _new: ast.AST = field(repr=False, compare=False)

    def apply(self) -> None:
        """Install the mutant in this process. Raises ``ValueError`` if it does not compile."""
        self._install(self._new)

    def apply_raise(self) -> None:
        """Install a raise in its place. If the raise survives, the place is never reached."""
        self._install(_raise(self._old))

    def _install(self, new: ast.AST) -> None:
        self._put(ast.fix_missing_locations(ast.copy_location(new, self._old)))
        try:
            code = compile(self._tree, f"<{self.name}>", "exec")
        except (TypeError, SyntaxError) as error:
            raise ValueError(f"{self.name}: {error}") from None
        finally:
            self._put(self._old)
        _live(self.module, self.function).__code__ = _code(code, self.function)


def systematic(modules: Iterable[str] = MODULES) -> Iterator[SystematicMutant]:
    """Yield every mutant, in the order of the sources."""
    for module in modules:
        imported = importlib.import_module(f"{PACKAGE}.{MODULES[module]}")
        yield from of_source(module, inspect.getsource(imported))


def of_source(module: str, source: str) -> Iterator[SystematicMutant]:
    r"""Yield the mutants of a module's functions.

    >>> [mutant.name for mutant in of_source("m", "def f(a):\n    return a < 2\n")][:2]
    ['m.f: return a < 2 → pass in “return a < 2”', 'm.f: a < 2 → a <= 2 in “return a < 2”']
    """
    tree, lines = ast.parse(source), source.splitlines()
    names: Counter[str] = Counter()
    for function, node in _functions(tree.body):
        if function in LEFT_OUT:
            continue
        for old, put in _places(node):
            for operator, new in _changes(old, node):
                ast.fix_missing_locations(ast.copy_location(new, old))
                if ast.dump(new) == ast.dump(old):
                    continue
                line: int = _line(old)
                where = f"{module}.{function}: {_said(old)} → {_said(new)}"
                where += f" in “{lines[line - 1].strip()}”"
                names[where] += 1
                name = where if names[where] == 1 else f"{where}, {names[where]}"
                yield SystematicMutant(name, module, function, operator, line, tree, put, old, new)


def drawn(mutants: Iterable[SystematicMutant], count: int, seed: int) -> list[SystematicMutant]:
    """Return a random sample. It changes little when other mutants come and go."""
    return sorted(mutants, key=lambda mutant: _chance(seed, mutant.name))[:count]


def _chance(seed: int, name: str) -> bytes:
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()


# In the source ----------------------------------------------------------------------------------


def _functions(body: Iterable[ast.stmt], above: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield functions and methods with their names. Nested functions are part of theirs."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{above}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield f"{above}{node.name}", node


def _places(node: ast.AST) -> Iterator[tuple[ast.AST, Callable[[ast.AST], None]]]:
    """Yield every node below, with a function that replaces it."""
    for name, value in ast.iter_fields(node):
        if name in ("args", "returns", "annotation", "decorator_list") and not isinstance(
            node, ast.Call
        ):
            continue
        if isinstance(value, ast.AST):
            yield from _place(value, partial(setattr, node, name))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield from _place(item, partial(value.__setitem__, index))


def _place(
    node: ast.AST, put: Callable[[ast.AST], None]
) -> Iterator[tuple[ast.AST, Callable[[ast.AST], None]]]:
    if isinstance(node, (ast.Assert, ast.Raise, ast.JoinedStr)):
        return
    if isinstance(node, ast.keyword) and node.arg == "strict":  # an assertion of its kind
        return
    yield node, put
    yield from _places(node)


def _line(node: ast.AST) -> int:
    if isinstance(node, ast.comprehension):
        node = node.target
    return node.lineno  # type: ignore[attr-defined,no-any-return]


def _said(node: ast.AST) -> str:
    return "pass" if isinstance(node, ast.Pass) else ast.unparse(node).strip().split("\n")[0]


# Operators --------------------------------------------------------------------------------------

_OTHERS: dict[type[ast.AST], tuple[type[Any], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.FloorDiv,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.FloorDiv,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}
_INSTEAD = (
    ("min", "max"),
    ("any", "all"),
    ("ceil_page", "floor_page"),
    ("FULL", "SWA"),
    ("lo", "hi"),
    ("kv_committed_len", "kv_allocated_len", "cache_protected_len", "swa_evicted_seqlen"),
    ("running_batch", "last_batch"),
    ("page", "swa_page"),
    ("evictable", "protected"),
    ("origin_input_ids", "output_ids"),
)
"""Names easily mistaken for each other."""


def _changes(node: ast.AST, function: ast.FunctionDef) -> Iterator[Change]:
    """Yield the possible mistakes in this place."""
    if isinstance(node, ast.stmt):
        yield from _statements(node, function)
    match node:
        case ast.Compare(left, ops, right):
            for index, op in enumerate(ops):
                for other in _OTHERS[type(op)]:
                    new = [*ops[:index], other(), *ops[index + 1 :]]
                    yield "comparison", ast.Compare(left, new, right)
        case ast.BinOp(left, op, right):
            for other in _OTHERS.get(type(op), ()):
                yield "arithmetic", ast.BinOp(left, other(), right)
            if isinstance(op, ast.FloorDiv):
                down = ast.BinOp(ast.UnaryOp(ast.USub(), left), op, right)
                yield "rounding", ast.UnaryOp(ast.USub(), down)
            yield "operand", left
        case ast.UnaryOp(ast.Not() | ast.USub(), operand) if not isinstance(operand, ast.Constant):
            yield "condition", operand
        case ast.BoolOp(op, values):
            yield "condition", ast.BoolOp(_OTHERS[type(op)][0](), values)
            for index in range(len(values)):
                rest = [*values[:index], *values[index + 1 :]]
                yield "conjunct", ast.BoolOp(op, rest) if len(rest) > 1 else rest[0]
        case ast.Constant(bool(value)):
            yield "boolean", ast.Constant(not value)
        case ast.Constant(int(value)):
            yield from (("constant", ast.Constant(value + by)) for by in (1, -1))
        case ast.IfExp(_, body, orelse) if _is_text(body) and _is_text(orelse):
            return
        case ast.IfExp(test, body, orelse):
            yield "condition", body
            yield "condition", orelse
            yield "condition", ast.IfExp(test, orelse, body)
        case ast.comprehension(target, iterable, [_, *_] as ifs):
            for index in range(len(ifs)):
                rest = [*ifs[:index], *ifs[index + 1 :]]
                yield "condition", ast.comprehension(target, iterable, rest, 0)
        case ast.Slice(lower, upper, step):
            yield from (("slice", ast.Slice(new, upper, step)) for new in _near(lower))
            yield from (("slice", ast.Slice(lower, new, step)) for new in _near(upper))
        case ast.Call(func, args, keywords):
            yield from _calls(func, args, keywords, swaps=function.name != "__init__")
        case ast.Attribute(value, name, context):
            yield from (("name", ast.Attribute(value, new, context)) for new in _instead(name))
        case ast.Name(name, context):
            yield from (("name", ast.Name(new, context)) for new in _instead(name))


def _calls(
    func: ast.expr, args: list[ast.expr], keywords: list[ast.keyword], *, swaps: bool
) -> Iterator[Change]:
    """Yield changed calls. ``swaps``: swap arguments, except in ``__init__``, where their types
    differ."""
    either = isinstance(func, ast.Name) and func.id in ("min", "max")
    for index in range(len(args) - 1 if swaps and not either else 0):
        swapped = [*args[:index], args[index + 1], args[index], *args[index + 2 :]]
        if not any(isinstance(argument, ast.Starred) or _is_text(argument) for argument in swapped):
            yield "arguments", ast.Call(func, swapped, keywords)
    if not isinstance(func, ast.Name):
        return
    if func.id in ("min", "max") and len(args) == 2:
        yield from (("bound", argument) for argument in args)
    if func.id in ("list", "tuple", "int") and len(args) == 1:
        yield "copy", args[0]
    if func.id == "range":
        for index, arg in enumerate(args):
            for new in _near(arg):
                yield "range", ast.Call(func, [*args[:index], new, *args[index + 1 :]], keywords)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _near(node: ast.expr | None) -> Iterator[ast.expr]:
    """Yield one more and one less. Constants have their own operator."""
    if node is not None and not isinstance(node, ast.Constant):
        yield ast.BinOp(node, ast.Add(), ast.Constant(1))
        yield ast.BinOp(node, ast.Sub(), ast.Constant(1))


def _instead(name: str) -> Iterator[str]:
    for group in _INSTEAD:
        if name in group:
            yield from (other for other in group if other != name)


def _statements(node: ast.stmt, function: ast.FunctionDef) -> Iterator[Change]:
    match node:
        case ast.If(test, body, orelse):
            for new in _tests(test):
                yield "condition", ast.If(new, body, orelse)
        case ast.While(test, body, orelse):
            for new in _tests(test):
                yield "condition", ast.While(new, body, orelse)
        case ast.Expr(ast.Constant()):
            return
        case ast.Return(None | ast.Constant(None)) if node is function.body[-1]:
            return
        case ast.Expr() | ast.Delete() | ast.Return():
            yield "deletion", ast.Pass()
        case ast.Assign(targets):
            if _known_anyway(targets, function):
                yield "deletion", ast.Pass()
        case ast.AugAssign(target, op, value):
            yield "deletion", ast.Pass()
            yield "assignment", ast.Assign([target], value)
            for other in _OTHERS.get(type(op), ()):
                yield "assignment", ast.AugAssign(target, other(), value)
        case ast.Break():
            yield "loop", ast.Continue()
            yield "loop", ast.Pass()
        case ast.Continue():
            yield "loop", ast.Break()
            yield "loop", ast.Pass()


def _tests(test: ast.expr) -> Iterator[ast.expr]:
    """Yield always, never, and the negation unless the test has an operator that negates it."""
    yield from (ast.Constant(True), ast.Constant(False))
    if not isinstance(test, (ast.Compare, ast.UnaryOp)):
        yield ast.UnaryOp(ast.Not(), test)


def _known_anyway(targets: list[ast.expr], function: ast.FunctionDef) -> bool:
    """Return True if every name has a value without the assignment. An unknown name would only
    crash."""
    nodes = list(ast.walk(function))
    names = [node.arg for node in nodes if isinstance(node, ast.arg)]
    names += [
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    assigned = [
        node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)
    ]
    return all(names.count(name) > 1 for name in assigned if name in names and name != "self")


def _raise(old: ast.AST) -> ast.AST:
    """Return code that raises when evaluated, as a statement, an expression or a filter."""
    never = ast.Subscript(ast.Dict([], []), ast.Constant("reached"), ast.Load())
    match old:
        case ast.stmt():
            return ast.Expr(never)
        case ast.comprehension(target, iterable, _, _):
            return ast.comprehension(target, iterable, [never], 0)
        case ast.Slice():
            return ast.Slice(never, None, None)
        case ast.Name(_, ast.Store()) | ast.Attribute(_, _, ast.Store()):
            return ast.Subscript(never, ast.Constant(0), ast.Store())
    return never


# In the process ---------------------------------------------------------------------------------


def _live(module: str, function: str) -> FunctionType:
    """Return the running function, without its decorators."""
    owner: Any = importlib.import_module(f"{PACKAGE}.{MODULES[module]}")
    for name in function.split("."):
        owner = inspect.getattr_static(owner, name)
    owner = getattr(owner, "__func__", getattr(owner, "fget", owner))
    return inspect.unwrap(owner)  # type: ignore[no-any-return]


def _code(code: CodeType, function: str) -> CodeType:
    """Return the function's code within its module's code."""
    for name in function.split("."):
        inside = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        (code,) = [inner for inner in inside if inner.co_name == name]
    return code
