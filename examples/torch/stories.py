"""Generates text to learn from: small stories about who has what, which end in a question."""

from __future__ import annotations

import random

NAMES = ["Ann", "Ben", "Cara", "Dan", "Eve", "Finn"]
THINGS = ["ball", "book", "coin", "key", "lamp", "rope"]
OTHERS = ["takes", "gives", "the", "to", "who", "has", ".", "?"]
WORDS = NAMES + THINGS + OTHERS
NUMBERS = {word: number for number, word in enumerate(WORDS)}


def story(chance: random.Random, most_events: int) -> list[int]:
    """The word numbers of a story. The answer at its end can be found only by looking back."""
    owners: dict[str, str] = {}
    words: list[str] = []
    for _ in range(chance.randint(2, most_events)):
        thing = chance.choice(THINGS)
        owner = owners.get(thing)
        name = chance.choice([other for other in NAMES if other != owner])
        words += [owner, "gives", "the", thing, "to", name, "."] if owner else [name, "takes", "the", thing, "."]
        owners[thing] = name
    thing = chance.choice(list(owners))
    words += ["who", "has", "the", thing, "?", owners[thing], "."]
    return [NUMBERS[word] for word in words]
