"""Measure what every request of a default agent carries: its system prompt with the date, and its tools.

    python bench/overhead.py

Tokens at four characters each.
"""

import json
import sys

from minideep import create_deep_agent
from minideep.models import ScriptedModel

BOUND = 2300


def main() -> int:
    model = ScriptedModel(["done"])
    create_deep_agent(model).run_sync("Go.")
    (request,) = model.requests
    sizes = {"system prompt": len(request.system)}
    for tool in request.tools:
        form = {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
        sizes[tool.name] = len(json.dumps(form, separators=(",", ":"), ensure_ascii=False))
    for name, size in sizes.items():
        print(f"{name:20} {size / 4:7.0f}")
    total = sum(sizes.values()) / 4
    print(f"{'together':20} {total:7.0f} (bound {BOUND})")
    return total > BOUND


if __name__ == "__main__":
    sys.exit(main())
