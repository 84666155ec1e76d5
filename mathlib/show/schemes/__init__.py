"""Schemes: how a mechanism works, drawn from its own data; a module a chapter, named as it is."""
