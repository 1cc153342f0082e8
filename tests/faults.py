"""How a parser ends on bytes that are not what it parses."""

from kafkalog.errors import LocatedError


def byte_of_fault(parse, *arguments):
    """Return the byte that the typed error names, or 0 where there is no error."""
    try:
        parse(*arguments)
    except LocatedError as error:
        return error.position
    return 0
