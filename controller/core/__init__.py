"""What must hold, whatever the provider, the store or the clock do? Rules only: values in, one value out.

Nothing here waits, logs, draws at random or reads a clock; time comes in as an aware UTC `datetime`, spans as
`timedelta`, money as `Decimal` dollars. Unknown is `None`, never false and never zero.
"""
