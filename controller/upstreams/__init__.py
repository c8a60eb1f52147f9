"""What runs on a rented machine, and how do we look at it?

The model server: the command that starts it, a probe that trusts nothing but its answers, and its own numbers. Who
provides the machine is not known here.
"""
