"""The conversation with the service.

`client` asks until there is an accepted answer; `transport` is a requests session under a
deadline, `pace` is when the next request may go out, `redirects` is where to, `failures` is what
can go wrong with one attempt and `patience` when it is made again. `clock` is time and the wish
to stop, `limits` what a call may take, `environment` what the machine says of certificates.
"""
