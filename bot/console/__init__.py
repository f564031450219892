"""What a person sees while it plays, and how anything is said at all.

Progress goes to stderr, results to stdout, and nothing that happens to a terminal or a pipe
reaches the game: what cannot be written is dropped. `streams` writes,
`displays` has the figures and the log, `terminal` the bar.
"""
