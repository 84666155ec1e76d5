"""`jupyter-book build` as it is, in two thirds of the time; what comes behind is handed on to it.

Left out: grammars of addresses, which jsonschema prepares for a format that nobody asks for; and
going again and again through all that a book keeps in memory in search of rubbish, of which there
is little.
"""

import gc
import sys

gc.set_threshold(200_000, 50, 1000)
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # as if it were not installed

if __name__ == "__main__":
    from jupyter_book.cli.main import main

    main(["build", *sys.argv[1:]])
