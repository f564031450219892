"""The run log: its lines, how they are written, read back and held against the rules.

`events` is the format, `writer` and `reader` are the file, `tail` its last lines. `ledger`
is where a run stands, with a `shortcut` for the many lines that are as they have to be and
`divergence` for the few that a service contradicted;
`recover` is how far a journal can be gone on with. `folder` is where a file lies among
others, `catalog` finds it by the name that a person gives, `housekeeping` makes room, and
`lock` keeps a second bot away.
"""
