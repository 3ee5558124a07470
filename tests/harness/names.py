"""The public names of the package: the modules that have them, and what each class shows."""

import minideep
import minideep.backends
import minideep.behaviours
import minideep.blueprint
import minideep.evals
import minideep.mcp
import minideep.middleware
import minideep.models
import minideep.permissions
import minideep.testing

MODULES = [
    minideep,
    minideep.backends,
    minideep.behaviours,
    minideep.blueprint,
    minideep.evals,
    minideep.mcp,
    minideep.middleware,
    minideep.models,
    minideep.permissions,
    minideep.testing,
]


def own_and_inherited(kind):
    """The members of *kind*, with those of its bases that are no public names themselves."""
    public = {name for module in MODULES for name in module.__all__}
    bases = [
        base for base in kind.__mro__[1:] if base.__module__.startswith("minideep.") and base.__name__ not in public
    ]
    return {name: member for base in (*reversed(bases), kind) for name, member in vars(base).items()}
