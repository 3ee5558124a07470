"""Middleware that keeps the context small: offloading, compaction, and what both of them share.

Import from `minideep.middleware`, which loads each part only when it is used.
"""
