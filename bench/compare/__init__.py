"""The same scripted work with minideep and with what a user would pick instead: `python -m bench.compare`."""
