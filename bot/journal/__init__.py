"""The run log: its lines, how they are written, read back and held against the rules.

`events` is the format, `writer` and `reader` are the file, `ledger` is where a run stands,
`folder` is where its file lies among others, `lock` keeps a second bot away from it.
"""
