"""The service's JSON, to and from the values of `rules`.

Nobody knows beforehand how the real service names and nests what it sends, but the rules know
every state beforehand. So no answer is read in the dark: `reading` looks in each one for the
state that it must hold, and tells where it found what, and what differs. `fields` is what there
is to find, `paths` is where, `values` is JSON itself, and `sayings` is what an answer without a
move says. All is pure: bytes and parsed JSON in, values out. Sending and asking again belong to
`client`.
"""
