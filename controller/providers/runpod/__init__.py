"""How is Runpod spoken to?

REST v2 alone. `wire` reads its answers and trusts none of them, `order` writes the one body that costs money,
`account` makes the calls, `pace` says when one may leave, `listing` reads all that there is, `adapter` turns that into
the two ports, `inspection` answers who asks whether the account is fit. Only here is a resource called a pod.
"""
