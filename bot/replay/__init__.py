"""What can be done with a journal once it is written: sum it up, watch it, ask a service about it.

`summary` says where a run stands, `watch` shows its moves, `audit` sends a sample of them again.
The proof itself is `bot.verify`. Nothing here writes.
"""
