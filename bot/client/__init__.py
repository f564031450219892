"""HTTP: what is sent, when it is sent again, and what an answer is worth.

`clock` is time and the wish to stop, `transport` is the session with its deadlines,
`environment` is what the machine says of certificates and proxies, `failures` is what can
go wrong with one attempt, `patience` is when to try again, `client` puts them together.
"""
