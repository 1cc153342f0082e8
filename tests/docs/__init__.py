"""The pages that ``make docs`` builds, in a browser."""
