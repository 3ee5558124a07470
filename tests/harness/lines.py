"""Lines of code as they are counted here: without blanks, comments and docstrings."""

import ast
import io
import tokenize

SKIPPED = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def code_lines(path):
    """How many lines of a file hold code."""
    text, prose, code = path.read_text(), set(), set()
    for node in ast.walk(ast.parse(text)):
        for statement in getattr(node, "body", ()) if isinstance(getattr(node, "body", ()), list) else ():
            if isinstance(statement, ast.Expr) and isinstance(getattr(statement.value, "value", None), str):
                prose.update(range(statement.lineno, statement.end_lineno + 1))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SKIPPED:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - prose)
