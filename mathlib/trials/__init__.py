"""Studies behind the verdicts: what a chapter shows and its trial proves, as functions that return
data.
"""
