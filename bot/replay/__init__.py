"""What can be done with a journal once it is written: sum it up, watch it, ask a service about it.

`summary` says where a run stands; of its `moves`, `watch` shows each and `audit` sends a sample
again.
Nothing here writes.
"""
