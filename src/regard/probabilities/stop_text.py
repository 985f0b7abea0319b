"""Stop strings: a text ends before the first place where the stop string is complete."""

from typing import final


@final
class StopText:
    """Passes the pieces of one text on, and holds back an end that may become the stop string.

    >>> text = StopText("<end>")
    >>> [text.add(piece) for piece in ("a<", "b <en", "d> c", "d")], text.ended
    (['a', '<b ', '', ''], True)
    """

    def __init__(self, stop: str | None):
        self._stop, self._held, self.ended = stop, "", False

    def add(self, piece: str) -> str:
        """Return what is certain not to belong to the stop string. After its end, a text stays empty."""
        if self._stop is None or self.ended:
            return "" if self.ended else piece
        text = self._held + piece
        place = text.find(self._stop)
        if place >= 0:
            self.ended, self._held = True, ""
            return text[:place]
        most = min(len(text), len(self._stop) - 1)
        held = next((size for size in range(most, 0, -1) if self._stop.startswith(text[-size:])), 0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def rest(self) -> str:
        """Return what is held back, once the model has written its last token."""
        held, self._held = self._held, ""
        return held
