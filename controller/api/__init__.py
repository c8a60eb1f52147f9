"""Who asks for what, and what is shown?

The daemon's HTTP: `app` and `views` answer operators and gateways, `client` is how the gateway and the CLI ask. The
client imports neither, so that a process without a store stays small.
"""
