"""Benchmarks and campaigns: programs of their own, and the package `compare`."""
