"""`python -m minideep`."""

import sys

from .cli import main

sys.exit(main())
