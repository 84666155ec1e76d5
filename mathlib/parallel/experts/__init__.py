"""Expert parallelism: a model with experts over ranks that share them."""
