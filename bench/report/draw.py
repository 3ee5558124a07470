"""Draw a report from results: `python -m bench.report.draw RESULTS.json FOLDER`, where matplotlib is installed."""

import sys
from pathlib import Path

from .charts import save
from .document import Document
from .html import html
from .page import markdown
from .pictures import PICTURES


def main() -> int:
    results, folder = map(Path, sys.argv[1:])
    document, questions = Document.read(results), dict[str, str]()
    for name, draw in PICTURES.items():
        figure = draw(document)
        if figure is not None:
            save(figure, folder / f"{name}.svg")
            questions[name] = figure.texts[0].get_text().replace("\n", " ")
    text = markdown(document, questions)
    (folder / "README.md").write_text(text)
    (folder / "index.html").write_text(html(text))
    print(f"{len(questions)} pictures, README.md and index.html are in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
