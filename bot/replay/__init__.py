"""What can be done with a journal once it is written: prove it, audit it, sum it up, watch it.

`verify` plays a journal again by the rules, `audit` asks a service about a sample of it,
`summary` is where a run stands. `film` is a run that can be wound, `drawing` a picture of it,
`projector` what keys and time do, `keyboard` the keys, and `watch` shows it. Nothing here
writes.
"""
