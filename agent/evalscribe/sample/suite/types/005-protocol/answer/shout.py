"""Speakers."""

from typing import Protocol


class Speaker(Protocol):
    """Whatever can speak."""

    def speak(self) -> str: ...


def loud(speaker: Speaker) -> str:
    """What it says, louder."""
    return speaker.speak().upper()
