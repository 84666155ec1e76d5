"""Pipeline schedules: what each stage does, in which order.

One schedule has three uses.  Formulas of its bubble are checked against it, it is simulated and
drawn, and real processes execute it.  A process that is stage `s` reads it so:

    for action in schedule.actions[s]:
        source = schedule.receives_from(action)   # a stage, or None: nothing to receive
        target = schedule.sends_to(action)        # a stage, or None: nothing to send

F takes the activations of the chunk before it (the data, where there is none) and sends its own.
B and I take the gradient of their chunk's output (the loss, behind the last chunk) and send that of
its input.  W takes and sends nothing; it needs what I of the same micro-batch and chunk left.
Where `source` is None and the chunk is no end of the model, the tensor is on this stage already.
`schedule.weights` says when weights are updated, `weights.versions` which ones a micro-batch meets.

When to receive is left to the process.  Sends that do not block (isend) end in every schedule that
`check.validate` passes; for those that do, `check.receives_to_post` says how many receives have to
stand open on a link.  Where `check.tags_needed`, a message must say which it is.
"""
