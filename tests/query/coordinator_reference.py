"""What a coordinator has after reading its partition: slow, and of golden truth alone.

Each record is a row with `offset`, `place` (the key), `value` (None deletes), and the
`producer_id` of a transaction, or None. A marker is a row with `producer_id` and
`commits`.
"""

from tests import golden_data

MARKERS = {"COMMIT": True, "ABORT": False}


def newest(rows):
    """Return {place: value}: each row is looked at as often as needed."""
    visible = []
    for number, row in enumerate(rows):
        if "commits" in row:
            continue
        if row["producer_id"] is not None:
            markers = [
                later["commits"]
                for later in rows[number:]
                if "commits" in later and later["producer_id"] == row["producer_id"]
            ]
            if not markers or not markers[0]:
                continue
        visible.append(row)
    state = {}
    for row in sorted(visible, key=lambda row: row["offset"]):
        state[row["place"]] = row["value"]
    return {place: value for place, value in state.items() if value is not None}


def golden_rows(name, directory, key_name):
    """Return the rows of a golden directory, of the records with keys of a name."""
    batches = {
        (row["file"], row["position"]): row
        for row in golden_data.truth(name, directory, "batches")
    }
    decoded = {
        row["offset"]: row for row in golden_data.truth(name, directory, "decoded")
    }
    rows = []
    for record in golden_data.truth(name, directory, "records"):
        batch = batches[record["file"], record["batch_position"]]
        producer_id = batch["producer_id"] if batch["is_transactional"] else None
        if "control" in record:
            kind = record["control"]["type"]
            rows.append({"producer_id": producer_id, "commits": MARKERS[kind]})
        elif decoded[record["offset"]]["key_name"] == key_name:
            row = decoded[record["offset"]]
            rows.append(
                {
                    "offset": row["offset"],
                    "place": tuple(row["key"].values()),
                    "value": row["value"],
                    "producer_id": producer_id,
                }
            )
    return rows


def golden_state(name, topic, key_name):
    """Return {place: value} of a topic in a golden set."""
    state = {}
    for directory in golden_data.directories(name):
        if directory.rpartition("-")[0] == topic:
            state |= newest(golden_rows(name, directory, key_name))
    return state
