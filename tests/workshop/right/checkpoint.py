"""Right programs for the puzzle checkpoint."""

from mathlib.workshop.tensor import join


async def save_number_by_number(me, shard, start, total):
    return [shard, start, total]


async def load_number_by_number(me, files, read):
    """Number by number: which file, and where in it."""
    own = None
    for i in range(files):
        shard, start, total = read(i)
        mine = range(total * me.rank // me.size, total * (me.rank + 1) // me.size)
        places = [n - start for n in mine if start <= n < start + len(shard)]
        own = shard[places] if own is None else join([own, shard[places]])
        del shard
    return own


async def save_cuts_follow_from_the_total(me, shard, start, total):
    """The whole number of parameters is enough: cuts follow from it."""
    return [total, shard]


async def load_cuts_follow_from_the_total(me, files, read):
    found = []
    for i in range(files):
        total, shard = read(i)
        start, end = total * i // files, total * (i + 1) // files
        low = max(start, total * me.rank // me.size)
        high = min(end, total * (me.rank + 1) // me.size)
        found += [shard[low - start : high - start]] if low < high else []
    return join(found)


async def save_the_last_file_first(me, shard, start, total):
    """What is before the shard, the shard, and what is after it."""
    return [start, shard, total - start - len(shard)]


async def load_the_last_file_first(me, files, read):
    """From the end, and each piece in front of what there is."""
    found = []
    for i in reversed(range(files)):
        before, shard, after = read(i)
        total = before + len(shard) + after
        low, high = total * me.rank // me.size, total * (me.rank + 1) // me.size
        first, last = max(low - before, 0), min(high - before, len(shard))
        if first < last:
            found.insert(0, shard[first:last])
    return join(found)


async def save_places_as_text(me, shard, start, total):
    return [f"{start} {start + len(shard)} {total}", shard]


async def load_places_as_text(me, files, read):
    """Only files that overlap are read, once the first has said how many numbers there are."""
    total = int(read(0)[0].split()[2])
    low, high = total * me.rank // me.size, total * (me.rank + 1) // me.size
    own = None
    for i in range(files):
        if total * i // files >= high or total * (i + 1) // files <= low:
            continue
        words, shard = read(i)
        start, end, _ = map(int, words.split())
        part = shard[max(low, start) - start : min(high, end) - start]
        own = part if own is None else join([own, part])
    return own
