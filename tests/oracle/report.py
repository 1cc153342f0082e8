"""A count of the differences between two players, and a print of the first."""

import json


class Report:
    """Counts differences and prints the first ones."""

    def __init__(self, limit):
        self.limit = limit
        self.count = 0

    def add(self, text):
        self.count += 1
        if self.count <= self.limit:
            print(text)
        elif self.count == self.limit + 1:
            print("  ... more differences not shown (--max)")


def short(value):
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 160 else text[:157] + "..."
