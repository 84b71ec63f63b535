"""Ids of users. Given by the suite."""

from typing import NewType

UserId = NewType("UserId", str)
