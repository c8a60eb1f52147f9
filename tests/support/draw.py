"""Where does a draw fall that a test has to foresee?"""


class Draw:
    """Randomness that always falls at the same part of a span; it gives no names."""

    def __init__(self, part: float) -> None:
        self.part = part

    def token_hex(self, nbytes: int) -> str:
        raise AssertionError(nbytes)

    def uniform(self, low: float, high: float) -> float:
        return low + self.part * (high - low)
