"""Measure what every request of a default agent carries: its system prompt and its tools.

    python bench/overhead.py

Tokens at four characters each.
"""

import json
import sys

from minideep import create_deep_agent
from minideep.models import ScriptedModel

BOUND = 1600


def main() -> int:
    spec = create_deep_agent(ScriptedModel([])).spec
    sizes = {"system prompt": len(spec.system)}
    for tool in spec.tool_list:
        form = {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
        sizes[tool.name] = len(json.dumps(form, separators=(",", ":"), ensure_ascii=False))
    for name, size in sizes.items():
        print(f"{name:15} {size / 4:7.0f}")
    total = sum(sizes.values()) / 4
    print(f"{'together':15} {total:7.0f} (bound {BOUND})")
    return total > BOUND


if __name__ == "__main__":
    sys.exit(main())
