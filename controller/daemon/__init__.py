"""The daemon: what `gpuwarden run` is made of.

`launches` joins config, provider and model server; `build` wires the parts on four seams; `serving` adds sockets,
signals and notifications.
"""
