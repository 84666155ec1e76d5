"""Each algorithm alone, to be read whole: no refusals, no tracing, no options."""
