"""The experiments, one module a chapter, named as the chapter is: `show.experiments` finds them."""
