"""What people ask about training in issue trackers, and the sections that answer it.

Wordings are those of threads in the trackers of DeepSpeed, Megatron-LM, PyTorch, PEFT, NCCL, vLLM,
transformers, MaxText and others. They were written down before the search had answered any. Where
two or three sections are named, any of them is right. The search was tuned on `TUNED` alone.
"""

TUNED = {
    "how much GPU memory to fine-tune a 7B model": (
        "memory#does-it-fit",
        "memory#model-states-what-is-kept-for-each-parameter",
        "after#memory-at-rest-2-bytes-or-half-a-byte-and-16-for-the-few",
        "after#lora-memory-against-full-fine-tuning-activations-and-logits-stay",
    ),
    "gradient checkpointing does not save memory": (
        "activations#how-recomputation-works",
        "activations#traps",
        "activations#what-a-byte-costs-to-recompute",
    ),
    "AdamW optimizer state memory": (
        "memory#model-states-what-is-kept-for-each-parameter",
        "memory#or-20-bytes-a-parameter",
    ),
    "LoRA uses as much memory as full fine-tuning": (
        "after#lora-memory-against-full-fine-tuning-activations-and-logits-stay",
    ),
    "overflow detected, setting loss scale": (
        "precision#why-fp16-needs-loss-scaling",
        "precision#overflow-underflow-and-steps-that-are-rounded-away",
    ),
    "fp8 training": ("precision#matmuls-in-fp8",),
    "how to calculate MFU": ("compute#from-flop-to-days-and-dollars-mfu",),
    "why is GPU utilization so low": (
        "roofline#how-100-became-46",
        "roofline#why-matmuls-on-a-gpu-stay-below-the-roof",
    ),
    "backward twice the flops of forward": (
        "autograd#why-backward-costs-two-forwards",
        "compute#flop-of-a-matrix-multiplication",
    ),
    "Chinchilla optimal number of tokens": ("planning#how-large-a-model-and-on-how-many-tokens",),
    "busbw vs algbw": ("collectives#bus-bandwidth",),
    "all-reduce slow across nodes": (
        "collectives#inside-nodes-and-between-them",
        "unequal#one-slow-link",
        "unequal#a-ring-waits-for-it-all-the-time",
    ),
    "NCCL watchdog timeout training hangs": ("unequal#a-hang",),
    "no_sync with DDP": ("data_parallel#gradient-accumulation", "data_parallel#ddp-in-pytorch"),
    "DistributedSampler duplicate samples": ("data_parallel#who-gets-which-data",),
    "DDP slower than a single GPU": (
        "data_parallel#how-many-ranks-pay-off",
        "data_parallel#scaling-efficiency-with-a-fixed-batch",
        "data_parallel#a-race-on-a-slow-wire",
    ),
    "FSDP reshard_after_forward": ("zero#zero-in-pytorch", "zero#stage-3-shard-the-weights"),
    "clip_grad_norm with sharded parameters": ("mics#one-norm-for-all-shards",),
    "overlap all-gather with compute prefetch": ("zero#hide-the-gathers-prefetch",),
    "1F1B vs GPipe memory usage": ("pipeline#gpipe-against-1f1b",),
    "virtual pipeline stages": ("schedules#interleaving-several-chunks-a-stage",),
    "pipline paralelism bubble": (  # codespell:ignore pipline,paralelism
        "pipeline#the-bubble-derived-both-ways",
    ),
    "vocab parallel cross entropy": ("tensor#vocabulary-and-loss-no-rank-has-whole-logits",),
    "Ulysses number of attention heads": ("sequences#ulysses-exchange-tokens-for-heads",),
    "MoE token dropping": ("experts#capacity-or-dropless",),
    "when to use TP, PP or DP": (
        "together#the-decision-path",
        "together#five-axes-in-one-table",
    ),
    "straggler detection": (
        "unequal#find-the-slow-one",
        "unequal#one-slow-rank",
        "unequal#a-rank-that-is-slow-now-and-then",
    ),
    "checkpoint interval MTBF node failures": ("planning#failures-checkpoints-and-the-calendar",),
    "PowerSGD gradient compression": (
        "links#why-powersgd-can-be-all-reduced-and-top-k-cannot",
        "links#in-pytorch-s-ddp",
        "links#what-a-code-leaves-out",
    ),
    "paged attention memory waste": ("inference#paged-caches-waste-less-memory",),
}

HELD = {
    "OOM despite ZeRO stage 3": ("zero#memory-during-a-step", "zero#stage-3-shard-the-weights"),
    "memory fragmentation reserved but unallocated": (
        "memory#does-it-fit",
        "memory#one-training-step-byte-by-byte",
        "memory#peak-memory-where-a-step-is-fullest",
    ),
    "selective activation recomputation": (
        "activations#run-every-policy",
        "activations#what-a-byte-costs-to-recompute",
    ),
    "offload activations to CPU": ("activations#offload-or-recompute",),
    "logits out of memory with large vocabulary": (
        "memory#a-large-vocabulary-the-loss",
        "activations#a-chunked-loss-never-holds-all-logits",
    ),
    "8-bit Adam bitsandbytes": ("precision#optimizer-states-in-8-bits",),
    "loss is nan with fp16": (
        "precision#why-fp16-needs-loss-scaling",
        "precision#overflow-underflow-and-steps-that-are-rounded-away",
    ),
    "pure bf16 training without fp32 master weights": (
        "precision#why-bf16-needs-master-weights",
        "memory#why-mixed-precision-keeps-fp32-master-weights",
    ),
    "memory bound or compute bound": ("roofline#arithmetic-intensity-and-the-roofline",),
    "cost of training a model": ("planning#the-bill", "compute#from-flop-to-days-and-dollars-mfu"),
    "tree vs ring allreduce": (
        "collectives#fewer-rounds-trees-and-halving-and-doubling",
        "collectives#what-nccl-does",
    ),
    "gradient accumulation loss does not match large batch": (
        "data_parallel#unequal-parts-weigh-by-tokens",
        "data_parallel#gradient-accumulation",
    ),
    "find_unused_parameters": (
        "data_parallel#a-parameter-without-a-gradient",
        "data_parallel#ddp-in-pytorch",
    ),
    "bucket_cap_mb": (
        "data_parallel#buckets-send-while-backward-goes-on",
        "data_parallel#how-many-ranks-pay-off",
        "data_parallel#what-to-remember",
    ),
    "linear scaling rule learning rate batch size": ("data_parallel#the-larger-batch",),
    "FSDP hybrid shard": ("mics#hsdp-in-pytorch",),
    "resume from checkpoint with a different number of GPUs": (
        "mics#start-and-restart-in-shards",
        "unequal#when-a-rank-dies",
        "unequal#fewer-ranks-or-a-spare",
    ),
    "how many microbatches": ("pipeline#how-many-micro-batches-are-enough",),
    "unbalanced pipeline stages": (
        "pipeline#stages-that-are-not-equal",
        "schedules#balance-the-memory-of-the-stages",
        "unequal#stages-by-speed-and-memory",
    ),
    "DualPipe DeepSeek": ("schedules#dualpipe-enter-from-both-ends",),
    "tensor parallel across nodes": (
        "tensor#one-node-two-nodes",
        "tensor#why-tensor-parallelism-stops-scaling",
    ),
    "context parallel load balance causal": (
        "sequences#why-a-plain-ring-idles-and-zigzag-does-not",
    ),
    "train with 128k context length": (
        "sequences#which-when-128-thousand-and-a-million-tokens",
        "sequences#when-a-sequence-does-not-fit",
    ),
    "expert load imbalance": ("experts#imbalance-and-its-cost",),
    "dispatch all-to-all communication volume": (
        "experts#count-the-bytes",
        "experts#dispatch-and-combine",
    ),
    "rank placement TP inside node": ("together#which-ranks-are-neighbours",),
    "continue training after node failure": (
        "unequal#when-a-rank-dies",
        "unequal#fewer-ranks-or-a-spare",
        "unequal#without-stopping-commit-by-quorum",
    ),
    "DiLoCo local SGD": ("links#meeting-less-often", "links#how-often-must-ranks-meet"),
    "specualtive decoding speedup": (  # codespell:ignore specualtive
        "inference#speculative-decoding-writes-several-tokens-in-one-reading",
    ),
    "PPO memory reference and reward model": (
        "after#preference-tuning-who-trains-who-scores-who-writes",
        "after#colocated-disaggregated-or-offloaded-where-ppo-s-models-live",
    ),
}
