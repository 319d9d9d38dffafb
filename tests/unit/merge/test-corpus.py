"""The corpus of merges once more, from the prose of schemas/vectors/merge/README.md, common/merge/merge.h and weights.h, in Python's unbounded integers.

It must give the recorded fingerprints of state and report, so that those are right and not only stable. Python is slow: of the corpus it takes the small
rounds of each rule and style.
"""
import math
import os
import struct
import sys

MASK = (1 << 64) - 1
WEIGHTS = [round(65536 / math.sqrt(1 + s)) for s in range(3)]
ONE = 1 << 30
UPDATES_MOST = 9
ENTRY_LIMIT = 1 << 49


class Rng:
    """common/base/rng.h"""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, bound):
        limit = MASK - MASK % bound
        value = self.next()
        while value >= limit:
            value = self.next()
        return value % bound


def float_of_bits(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def fixed(value):
    """A float32 in units of 2^-32, to nearest, ties to even: what has fewer than 53 bits is exact in a double."""
    return round(value * 2.0**32)


def unfixed(value):
    return struct.unpack("<f", struct.pack("<f", value / 2**32))[0] if value else 0.0


def toward_zero(numerator, denominator):
    return numerator // denominator if numerator >= 0 else -(-numerator // denominator)


# ---- a line's inputs ----


class Line:
    def __init__(self, text):
        words = text.split()
        self.rule, self.n, self.keep = words[0], int(words[1]), int(words[2])
        self.tensors = [[int(dim) for dim in shape.split("x")] for shape in words[3].split(",")]
        self.style, self.mixed = words[4], words[5] == "mixed"
        self.liars, self.clip, self.overlap, self.step, self.limit, self.halvings, seed = map(int, words[6:13])
        self.recorded = int(words[14], 16), int(words[15], 16)
        self.expand(Rng(seed))

    def expand(self, rng):
        size = sum(math.prod(dims) for dims in self.tensors)
        self.state = [self.state_value(rng.below(1 << 24), i) for i in range(size)]
        self.updates = []
        for i in range(self.n):
            hashed = b"".join(struct.pack("<Q", rng.next()) for _ in range(4))
            self.updates.append(Update(self, i, hashed, rng))

    def state_value(self, drawn, i):
        if self.style == "zeros" and i % 3 == 0:
            return -0.0
        if self.style == "extreme" and i % 7 == 0:
            return -(2.0**20) if i % 2 else 2.0**20
        if self.style == "extreme" and i % 7 == 1:
            return float_of_bits(i % 100)
        return (drawn - (1 << 23)) * 2.0**-28


def largest_divisor(size):
    return next(d for d in range(min(size, 64), 0, -1) if size % d == 0)


class Tiling:
    """schemas/update.md"""

    def __init__(self, dims, keep):
        self.rows, self.columns = (1, dims[0]) if len(dims) == 1 else (dims[0], math.prod(dims[1:]))
        self.tile_rows, self.tile_columns = largest_divisor(self.rows), largest_divisor(self.columns)
        self.size = self.tile_rows * self.tile_columns
        self.blocks = self.rows * self.columns // self.size
        self.kept = min(max(1, self.size * keep // 4096), self.size)

    def place(self, block, index):
        across = self.columns // self.tile_columns
        row = block // across * self.tile_rows + index // self.tile_columns
        return row * self.columns + block % across * self.tile_columns + index % self.tile_columns


class Update:
    """values: {place in the state: fixed-point value}"""

    def __init__(self, line, i, hashed, rng):
        self.hashed, self.i = hashed, i
        self.staleness = i % 3 if line.mixed else 0
        self.left_out = line.style == "none" or (line.style == "out" and i % 4 == 3)
        self.copy_of = None
        self.sent = []  # per tensor [(block, index, code)]
        self.values = {}  # with peaks flattened
        self.raw = []  # per tensor {place in the state: fixed-point value}
        first = 0
        for t, dims in enumerate(line.tensors):
            tiling = Tiling(dims, line.keep)
            book = self.codebook(line.style, rng)
            sent = self.draw(line, t, tiling, rng)
            self.sent.append(sent)
            if line.style == "far" and i % 4 == 3:
                sent = [(block, index, 3 - code) for block, index, code in sent]
            self.raw.append({first + tiling.place(block, index): book[code] for block, index, code in sent})
            first += math.prod(dims)

    def codebook(self, style, rng):
        book = [((1 << 18) + rng.below(1 << 20)) * 2.0**-30 for _ in range(4)]
        book = sorted([-book[0], -book[1]]) + sorted(book[2:])
        if style == "ties":
            book = [-(2.0**-10), -(2.0**-11), 2.0**-11, 2.0**-10]
        elif style == "zeros":
            book = [0.0] * 4 if self.i % 3 == 0 else [book[0], 0.0, book[2], book[3]]
        elif style == "extreme" and self.i % 4 == 0:
            book = [float_of_bits(bits) for bits in (0xFF7FFFFF, 0xC8000000, 0x48000000, 0x7F7FFFFF)]
        elif style == "extreme" and self.i % 4 == 1:
            book = [float_of_bits(bits) for bits in (0x80800000, 0x80000001, 1, 0x800000)]
        elif style == "far" and self.i % 4 == 3:
            book = [1024 * value for value in book]
        return [min(max(fixed(value), -ENTRY_LIMIT), ENTRY_LIMIT) for value in book]

    def draw(self, line, t, tiling, rng):
        if line.style in ("ties", "copies", "out") and self.i % 2 == 1:
            return line.updates[self.i - 1].sent[t]
        if line.style == "near" and self.i % 2 == 1:
            before = line.updates[self.i - 1].sent[t]
            return [(block, index, 3 - code if rng.below(4) == 0 else code) for block, index, code in before]
        if line.style == "mask" and self.i > 0:
            sent = line.updates[0].sent[t]
        else:
            sent = [value for block in range(tiling.blocks) for value in draw_block(tiling, block, rng)]
        if line.style == "mask":
            sent = [(block, index, rng.below(4)) for block, index, _ in sent]
        return sent


def draw_block(tiling, block, rng):
    chosen = []
    for place in range(tiling.size):
        if len(chosen) == tiling.kept:
            break
        if rng.below(tiling.size - place) < tiling.kept - len(chosen):
            chosen.append(place)
    for index in chosen:
        drawn = rng.below(8)
        side = (7 * index + block) % 2
        side = side if drawn < 6 else 1 - side
        yield block, index, 2 * side + drawn % 2


# ---- weights.h ----


def dot(a, b):
    if len(b) < len(a):
        a, b = b, a
    return sum(value * b[place] for place, value in a.items() if place in b)


def lower_median(values):
    return sorted(values)[(len(values) - 1) // 2]


class Table:
    """The Gram matrix, brought to 62 bits."""

    def __init__(self, gram):
        shift = max(abs(value) for row in gram for value in row).bit_length() - 62
        self.n = len(gram)
        self.at = [[self.scaled(value, shift) for value in row] for row in gram]

    @staticmethod
    def scaled(value, shift):
        return toward_zero(value, 1 << shift) if shift >= 0 else value << -shift

    def square(self, i, j):
        return max(0, self.at[i][i] - 2 * self.at[i][j] + self.at[j][j])

    def distances(self, weights):
        """In units of 2^-30 of the table's root."""
        to_centre = [sum(g * w for g, w in zip(row, weights)) for row in self.at]
        own = sum(w * c for w, c in zip(weights, to_centre))
        return [math.isqrt(max(0, self.at[i][i] * ONE * ONE - 2 * ONE * to_centre[i] + own)) for i in range(self.n)]


def krum_order(table, f):
    near = max(1, table.n - f - 2)
    scores = []
    for i in range(table.n):
        scores.append(sum(sorted(table.square(i, j) for j in range(table.n) if j != i)[:near]))
    return sorted(range(table.n), key=lambda i: scores[i])


def multi_krum(table, f, chosen=None):
    chosen = chosen or max(1, table.n - f)
    order = krum_order(table, f)
    weights = [0] * table.n
    for i in order[:chosen]:
        weights[i] = ONE // chosen
    weights[order[0]] += ONE - ONE // chosen * chosen
    return weights


def weigh_by(shares):
    total = sum(shares)
    weights = [share * ONE // total for share in shares]
    weights[shares.index(max(shares))] += ONE - sum(weights)
    return weights


def geometric_median(table, _):
    nu = max(lower_median(table.distances([0] * table.n)) >> 16, 2 << 30)
    weights = weigh_by([1] * table.n)
    for _ in range(8):
        weights = weigh_by([(1 << 100) // max(nu, distance) for distance in table.distances(weights)])
    return weights


def centered_clip(table, _):
    weights = [0] * table.n
    for _ in range(3):
        distances = table.distances(weights)
        radius = lower_median(distances)
        clips = [ONE if distance <= radius else (radius << 30) // distance for distance in distances]
        rest = table.n * ONE - sum(clips)
        weights = [(w * rest + c * ONE) // (table.n * ONE) for w, c in zip(weights, clips)]
    return weights


def nearest(table, count):
    sets = []
    for i in range(table.n):
        order = sorted(range(table.n), key=lambda j: (j != i, table.square(i, j)))
        sets.append(order[:count])
    return sets


def mix(gram, sets):
    def mean(a, b):
        return toward_zero(sum(gram[i][j] for i in a for j in b), len(a) * len(b))

    return [[mean(a, b) for b in sets] for a in sets]


# ---- copies.h ----


def informative(line, update):
    """The places that tell updates apart, as (tensor, block, index)."""
    places = set()
    for t, (dims, sent) in enumerate(zip(line.tensors, update.sent)):
        tiling = Tiling(dims, line.keep)
        if tiling.kept * 8 <= tiling.size:
            first = sum(math.prod(before) for before in line.tensors[:t])
            for block, index, _ in sent:
                if update.values[first + tiling.place(block, index)] != 0:
                    places.add((t, block, index))
    return places


def pair_cosine(a, b):
    norms, product = norm_of(a.values) * norm_of(b.values), dot(a.values, b.values)
    if norms >> 117:
        norms, product = norms >> 10, toward_zero(product, 1 << 10)
    if norms == 0:
        return 0
    held = min(1000, abs(product) * 1000 // norms)
    return -held if product < 0 else held


def nearly_equal(line, a, b, usual):
    cosine = pair_cosine(a, b)
    if cosine >= 250 + 2 * max(usual, 0):
        return True
    ours, others = informative(line, a), informative(line, b)
    either = len(ours | others)
    shares = either > 0 and len(ours & others) * 1000 >= either * line.overlap
    return shares and cosine >= 500


def counts(update):
    return update.copy_of is None and not update.left_out and any(any(values.values()) for values in update.raw)


def flatten(line):
    """Peaks: no value beyond twice the median of the largest ones that those send who count."""
    counting = [update for update in line.updates if counts(update)]
    for update in line.updates:
        update.values = {}
    for t in range(len(line.tensors)):
        peaks = [max(map(abs, update.raw[t].values())) for update in counting]
        votes = len(peaks) >= 5 and line.clip > 0
        limit = min(2 * median_of_nonzero(peaks) if votes else 0, ENTRY_LIMIT) or ENTRY_LIMIT
        for update in line.updates:
            update.values.update({place: min(max(value, -limit), limit) for place, value in update.raw[t].items()})


def mark_copies(line):
    stay = []
    flatten(line)
    looked_at = [update for update in line.updates if not update.left_out and any(update.values.values())]
    cosines = [pair_cosine(a, b) for i, a in enumerate(looked_at) for b in looked_at[:i]]
    usual = lower_median(cosines) if cosines else 0
    for update in sorted(line.updates, key=lambda u: (u.left_out, u.hashed)):
        earlier = sorted(stay, key=lambda u: u.hashed) if line.overlap else []
        update.copy_of = next((other for other in earlier if nearly_equal(line, other, update, usual)), None)
        if update.copy_of is None:
            stay.append(update)
    flatten(line)


# ---- merge.h ----


def norm_of(values):
    return math.isqrt(sum(value * value for value in values.values()))


def median_of_nonzero(norms):
    norms = [norm for norm in norms if norm]
    return lower_median(norms) if norms else 0


def trimmed(values, f):
    values = sorted(values)[f : len(values) - f]
    return toward_zero(sum(values), len(values))


def weighted_sum(columns, weights):
    return sum(toward_zero(value * weight, ONE) for value, weight in zip(columns, weights))


def clipped(norm, limit):
    return (limit << 30) // norm if limit is not None and norm > limit else ONE


def cosine(along, norms):
    """Both are cut to 100 bits."""
    size = abs(along)
    while norms >> 100 or size >> 100:
        norms >>= 1
        size >>= 1
    held = min(1000, size * 1000 // norms) if norms else 0
    return -held if along < 0 else held


class Round:
    def __init__(self, line):
        self.line = line
        mark_copies(line)
        self.updates = [u for u in sorted(line.updates, key=lambda u: u.hashed) if counts(u)]
        self.n = len(self.updates)
        self.f = 0 if self.n < 5 else min(-(-self.n * line.liars // 1000), (self.n - 1) // 2)
        self.clip_and_weigh()
        self.step()

    def clip_and_weigh(self):
        line = self.line
        for update in line.updates:
            update.norm = norm_of(update.values)
        self.median = median_of_nonzero([update.norm for update in self.updates])
        limits = [line.limit] if line.limit else []
        limits += [self.median * line.clip // 1000] if line.clip and self.median else []
        limit = min(limits, default=None)
        for update in line.updates:
            update.ratio = clipped(update.norm, limit)
            update.multiplier = update.ratio * WEIGHTS[update.staleness]
        for update in self.updates:
            update.weighted = {p: toward_zero(v * update.multiplier, 1 << 46) for p, v in update.values.items()}
        self.target = median_of_nonzero([norm_of(update.weighted) for update in self.updates])

    @staticmethod
    def gram(updates):
        def product(one, other):
            value = dot(one.values, other.values)
            for multiplier in sorted((one.multiplier, other.multiplier), reverse=True):
                value = toward_zero(value * multiplier, 1 << 46)
            return value

        return [[product(one, other) for other in updates] for one in updates]

    def rule(self):
        """A function of the n values of a place."""
        name, n, f = self.line.rule, self.n, self.f
        mixes = name.startswith("nnm")
        if name == "mean" or n == 1 or (mixes and f == 0):
            return lambda column: trimmed(column, 0)
        if name in ("coordinate_median", "trimmed_mean"):
            return lambda column: trimmed(column, (n - 1) // 2 if name == "coordinate_median" else f)
        gram = self.gram(self.updates)
        if not mixes:
            rules = {
                "krum": lambda table, f: multi_krum(table, f, 1),
                "multi_krum": multi_krum,
                "geometric_median": geometric_median,
                "centered_clip": centered_clip,
            }
            weights = rules[name](Table(gram), f)
            return lambda column: weighted_sum(column, weights)
        sets = nearest(Table(gram), n - f)
        if name == "nnm_trimmed_mean" and n >= 8:
            return lambda column: self.trimmed_mix(column, sets)
        mixed = geometric_median(Table(mix(gram, sets)), f)
        weights = [sum(w for w, members in zip(mixed, sets) if j in members) // (n - f) for j in range(n)]
        return lambda column: weighted_sum(column, weights)

    def trimmed_mix(self, column, sets):
        sums = sorted(sum(column[j] for j in members) for members in sets)[self.f : self.n - self.f]
        return toward_zero(sum(sums), len(sums) * len(sets[0]))

    def step(self):
        self.aggregate, self.norm, self.ratio = {}, 0, 0
        self.state = list(self.line.state)
        if self.n == 0:
            return
        rule = self.rule()
        places = set().union(*(update.weighted for update in self.updates))
        self.aggregate = {p: rule([update.weighted.get(p, 0) for update in self.updates]) for p in places}
        self.norm = norm_of(self.aggregate)
        ratio = min(max((self.target << 30) // self.norm, ONE), 2 * ONE) if self.norm else ONE
        self.ratio = ratio * self.line.step // 1000 >> self.line.halvings
        for place, value in self.aggregate.items():
            step = toward_zero(value * self.ratio, ONE)
            if step != 0:
                self.state[place] = unfixed(fixed(self.state[place]) - step)

    def agreement(self):
        """weights.h: of all updates with the sum of the others that were merged."""
        updates = self.line.updates
        at = Table(self.gram(updates)).at
        merged = [i for i, update in enumerate(updates) if update in self.updates]
        found = []
        for i in range(len(updates)):
            others = [j for j in merged if j != i]
            along = sum(at[i][j] for j in others)
            square = sum(at[j][k] for j in others for k in others)
            if at[i][i] <= 0 or square <= 0:
                found.append(0)
                continue
            roots = math.isqrt(at[i][i] << 40) * math.isqrt(square << 40)
            held = min(1000, (abs(along) << 40) * 1000 // roots)
            found.append(-held if along < 0 else held)
        return found

    def report(self):
        numbers = []
        for update, agreement in zip(self.line.updates, self.agreement()):
            merged = update in self.updates
            angle = cosine(dot(update.weighted, self.aggregate), norm_of(update.weighted) * self.norm) if merged else 0
            copy_of = MASK >> 32 if update.copy_of is None else update.copy_of.i
            numbers += [update.norm, merged, update.ratio if merged else ONE, copy_of, angle, agreement]
        return numbers + [self.n, self.f, self.median, self.norm * self.ratio >> 30]


def fnv(data):
    hashed = 0xCBF29CE484222325
    for byte in data:
        hashed = ((hashed ^ byte) * 0x100000001B3) & MASK
    return hashed


def fingerprints(line):
    merged = Round(line)
    state = struct.pack(f"<{len(merged.state)}f", *merged.state)
    return fnv(state), fnv(b"".join(struct.pack("<Q", number & MASK) for number in merged.report()))


def main():
    path = os.path.join(os.environ.get("SKEP_SOURCE", "."), "schemas/vectors/merge/corpus.txt")
    every = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    with open(path) as file:
        texts = [text for text in file if text.strip() and not text.startswith("#")]
    texts = [text for text in texts if int(text.split()[1]) <= UPDATES_MOST and text.split()[13] == "ok"]
    checked = {}
    print("1..9")
    for text in texts[::every]:
        line = Line(text)
        found = fingerprints(line)
        if found != line.recorded:
            print(f"# {found[0]:016x} {found[1]:016x} and not what is recorded: {text}", end="")
        right, count = checked.get(line.rule, (True, 0))
        checked[line.rule] = (right and found == line.recorded, count + 1)
    for number, (rule, (right, count)) in enumerate(checked.items()):
        print(f"{'ok' if right else 'not ok'} {number + 1} - {count} merges by {rule} give the recorded bits")
    return 0 if len(checked) == 9 and all(right for right, _ in checked.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
