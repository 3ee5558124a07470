"""The page for a browser: the same Markdown, with a little style for phones, paper and dark rooms."""

from markdown_it import MarkdownIt

STYLE = """
body { font: 1rem/1.5 system-ui, sans-serif; color: #111; background: #fff; max-width: 56rem; margin: 0 auto;
       padding: 0 1rem 4rem; }
h1, h2, h3 { line-height: 1.2; margin-top: 2em; }
img { display: block; width: 100%; max-width: 34rem; height: auto; margin: 1rem 0; }
table { display: block; overflow-x: auto; border-collapse: collapse; white-space: nowrap; font-size: 0.9rem; }
th, td { padding: 0.25rem 0.6rem; border-bottom: 1px solid #ccc; font-variant-numeric: tabular-nums; }
th { border-bottom: 2px solid #111; }
td:first-child, th:first-child { position: sticky; left: 0; background: #fff; padding-left: 0; }
summary { cursor: pointer; padding: 0.5rem 0; font-weight: bold; }
@media (max-width: 40rem) { td:first-child, th:first-child { white-space: normal; min-width: 8rem; } }
code { font-size: 0.9em; }
"""
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>What minideep costs</title>
<style>{style}</style>
<body>
{body}</body>
</html>
"""


def html(markdown: str) -> str:
    return PAGE.format(style=STYLE, body=MarkdownIt("commonmark").enable("table").render(markdown))
