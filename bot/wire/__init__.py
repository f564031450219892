"""The service's JSON, to and from the values of `rules`.

Nobody knows beforehand how the real service names and nests what it sends, but the rules know
every state beforehand. So no answer is read in the dark: each is searched for the state that it
must hold. From the bottom up: `values` is JSON itself and where something stands in it, `fields` is
what there is to find, `layout` is where the last answer had it, `places` finds in one pass where it
could be in this one, `reading` judges which place counts and what differs, and `sayings` is what an
answer without a move says. All is pure: bytes and parsed JSON in, values out.
Sending and asking again belong to `client`.
"""
