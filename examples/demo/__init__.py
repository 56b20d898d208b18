"""One release, end to end, told as a story: ``make demo``."""
