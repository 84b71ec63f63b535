from typing import Protocol


class Speaker(Protocol):
    def speak(self) -> str:
        """Say something."""
        ...


def loud(speaker: Speaker) -> str:
    """Return the speaker's words in upper case."""
    return speaker.speak().upper()
