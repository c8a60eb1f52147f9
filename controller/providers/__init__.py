"""How do we speak to those who bill us?

`reading` looks and allocates nothing; `writing` costs or stops. They are two ports on purpose: what only looks cannot
be given the means to spend. Each concrete provider is a folder of its own, named in `daemon` alone.
"""
