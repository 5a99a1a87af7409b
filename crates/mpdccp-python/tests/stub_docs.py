"""Compares the docstrings of the stub file STUB with those of the installed native module: stub_docs.py STUB.

With UPDATE=1 in the environment, writes them into the stub instead.
"""

import ast
import inspect
import os
import pathlib
import sys
import textwrap

import mpdccp._mpdccp as native


def docstring(node):
    """Whether the statement is a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def documented(text):
    """The stub with the docstrings of the module, and the names of the members without one."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    position = lambda line, column: starts[line - 1] + column
    edits, missing = [], []

    def literal(of, name, indent):
        doc = inspect.cleandoc(of.__doc__ or "")
        if not doc:
            missing.append(name)
            return None
        return "\n" + textwrap.indent(f'"""{doc}"""', indent)

    for item in ast.parse(text).body:
        if not isinstance(item, ast.ClassDef):
            continue
        owner = getattr(native, item.name)
        first = item.body[0]
        head = text.rindex(":", 0, position(first.lineno, first.col_offset)) + 1
        decorated = getattr(first, "decorator_list", [])
        if decorated:
            head = text.rindex(":", 0, position(decorated[0].lineno, 0)) + 1
        end = position(first.end_lineno, first.end_col_offset) if docstring(first) else head
        doc = literal(owner, item.name, "    ")
        edits.append((head, end, doc or ""))
        for node, following in zip(item.body, [*item.body[1:], None]):
            if isinstance(node, ast.AnnAssign):
                name, indent = node.target.id, "    "
                begin = position(node.end_lineno, node.end_col_offset)
                end = position(following.end_lineno, following.end_col_offset) if docstring(following) else begin
                empty = ""
            elif isinstance(node, ast.FunctionDef) and not node.name.startswith("__"):
                name, indent, body = node.name, "        ", node.body[0]
                begin = text.rindex(":", 0, position(body.lineno, body.col_offset)) + 1
                end = position(body.end_lineno, body.end_col_offset)
                empty = " ..."
            else:
                continue
            doc = literal(getattr(owner, name), f"{item.name}.{name}", indent)
            edits.append((begin, end, doc or empty))
    for begin, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new + text[end:]
    return text, missing


stub = pathlib.Path(sys.argv[1])
text, missing = documented(stub.read_text())
assert not missing, f"without documentation in the source: {missing}"
if os.environ.get("UPDATE"):
    stub.write_text(text)
assert stub.read_text() == text, f"{stub} is not current: UPDATE=1 {pathlib.Path(sys.argv[0]).parent.parent}/test"
