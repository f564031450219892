"""The service's JSON, to and from the values of `rules`.

Nobody knows beforehand how the real service names and nests what it sends. The answer to
`init` is known in full from the rules, so `discovery` looks for those values in it and keeps
where they stand as a `layout`, which then holds every later answer against the prediction,
field by field, in value and in type. `fields` is what there is to find, `paths` is where,
`values` is JSON itself; `refusals` are answers without a move, and `claims` is the service's
word where it is followed. All is pure: bytes and parsed JSON in, values out. Sending and
asking again belong to `client`.
"""
