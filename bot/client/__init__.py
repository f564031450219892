"""HTTP: what is sent, when it is sent again, and what an answer is worth.

`clock` is time and the wish to stop, `limits` is what may be asked, `transport` is the
session with its deadlines, `environment` is what the machine says of certificates and
proxies, `redirects` is where the service may send us, `failures` is what can go wrong with
one attempt, `patience` is when to try again, `client` puts them together.
"""
