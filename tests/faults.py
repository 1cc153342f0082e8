"""Position in the error of a parser that is called with invalid bytes."""

from kafkalog.errors import LocatedError


def byte_of_fault(parse, *arguments):
    """Return the position in the error that `parse` raises, 0 if it raises none."""
    try:
        parse(*arguments)
    except LocatedError as error:
        return error.position
    return 0
