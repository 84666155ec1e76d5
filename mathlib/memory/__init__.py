"""Bytes on a device."""
