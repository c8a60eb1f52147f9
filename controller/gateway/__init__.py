"""What happens to a client's request between the fixed address and the machine of the moment?

`admission` refuses what needs no machine, `waiting` holds callers of a cold model and asks the daemon once for all of
them, `placement` finds a proven deployment under a stream lease, `proxy` passes bytes on, and `exchange` sees to it
that a request ends in exactly one way. `inference` takes a request through all of these and gives back what it took;
`shortcut` does so without a task while nothing has to be waited for but the model. What the daemon wants of the gateway
comes by `routes`; nothing here can reach a provider.
"""
