"""How does a mutant get into a process that has imported everything already, or is about to?

Inside a function: the live function objects are given the mutant's code, so nothing is imported anew. Elsewhere (a
table, a default): the module is compiled with the change when it is imported, in a process that has not done so yet.
"""

import ast
import builtins
import copy
import gc
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from tests.mutation.mutants import Module, Mutant

Live = dict[tuple[str, str, int], list[FunctionType]]


class NotPlanted(Exception):
    """The mutant is nowhere in this process: a verdict would mean nothing."""


def live_functions() -> Live:
    """All functions there are, by file, name and line."""
    found: Live = {}
    for one in gc.get_objects():
        if isinstance(one, FunctionType):
            code = one.__code__
            found.setdefault((code.co_filename, code.co_qualname, code.co_firstlineno), []).append(one)
    return found


def plant(module: Module, mutant: Mutant, live: Live) -> None:
    """Change the functions of this process."""
    assert mutant.function is not None
    name, line = mutant.function
    functions = live.get((str(module.path), name, line), [])
    codes = [
        code for code in codes_in(module.compiled(mutant)) if (code.co_qualname, code.co_firstlineno) == (name, line)
    ]
    if not functions or len(codes) != 1:
        raise NotPlanted(f"{mutant.id}: {len(functions)} functions, {len(codes)} codes")
    for function in functions:
        function.__code__ = codes[0]


def codes_in(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from codes_in(one)


def tell_statements(modules: list[Module], ran: Callable[[str, int], object]) -> None:
    """From now on each statement inside a function of these modules says its line before it runs."""
    vars(builtins)[TOLD] = ran
    live = live_functions()
    for module in modules:
        telling = ast.fix_missing_locations(_Telling(module.name).visit(copy.deepcopy(module.tree)))
        for code in codes_in(compile(telling, str(module.path), "exec")):
            for function in live.get((str(module.path), code.co_qualname, code.co_firstlineno), []):
                function.__code__ = code


TOLD: Final = "_statement_ran"


class _Telling(ast.NodeTransformer):
    def __init__(self, name: str) -> None:
        self._name = name

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if isinstance(statements, list) and not isinstance(node, ast.Module | ast.ClassDef):
                setattr(node, field, [one for statement in statements for one in self._told(statement)])
        return node

    def _told(self, statement: ast.stmt) -> list[ast.stmt]:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            return [statement]  # a docstring has to stay the first
        place: list[ast.expr] = [ast.Constant(value=self._name), ast.Constant(value=statement.lineno)]
        call = ast.Call(func=ast.Name(id=TOLD, ctx=ast.Load()), args=place, keywords=[])
        return [ast.copy_location(ast.Expr(value=call), statement), statement]


class AtImport(MetaPathFinder):
    """Imports one module with its change."""

    def __init__(self, module: Module, mutant: Mutant | None) -> None:
        self._module, self._mutant = module, mutant
        self.used = False

    def plant(self) -> None:
        if self._module.dotted in sys.modules:
            raise NotPlanted(f"{self._module.name} is imported already")
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._module.dotted:
            return None
        self.used = True
        code = self._module.compiled(self._mutant)
        return importlib.util.spec_from_file_location(
            fullname, self._module.path, loader=_Loader(fullname, str(self._module.path), code)
        )


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, code: CodeType) -> None:
        super().__init__(fullname, path)
        self._code = code

    def get_code(self, fullname: str) -> Any:
        return self._code
