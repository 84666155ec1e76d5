"""The clinic: short programs with one real fault each, by subject.

Each module has `CASES`: puzzles whose start is a program as somebody wrote it, and whose thread is
where that was found.
"""
