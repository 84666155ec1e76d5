"""All axes in one training step: pipeline, data with ZeRO, context, experts, tensor."""
