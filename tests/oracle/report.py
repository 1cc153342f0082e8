"""What two players made differently: counted, and the first differences printed."""

import json


class Report:
    """Collects differences, prints the first ones."""

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
