"""The puzzles, one module each, named as the puzzle is: `grade.find` finds them.

A module has `start`, the program that a reader begins with, `solution`, and what is tried.
"""
