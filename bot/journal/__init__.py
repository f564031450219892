"""Storage: the log of a run as a file. It knows no rules.

`events` is the format. `files` opens a file that others may have tampered with, `lock` keeps a
second bot away, `writer` and `reader` are the journal itself, `folder` is where it lies among
others, and `housekeeping` makes room.
"""
