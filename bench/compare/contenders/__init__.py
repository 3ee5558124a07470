"""One module a contender; `contender.py` says what each of them has."""
