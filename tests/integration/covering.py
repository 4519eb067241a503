"""Few cases in which every pair of values of every two factors still meets (all-pairs testing)."""

import random
from itertools import combinations


def covering(factors, seed=1):
    """`factors`: name -> list of values. Returns dicts; the same ones for the same seed.

    Greedy: each case starts from a pair that no case has had yet, and takes for every other factor
    the value that brings the most such pairs with it.
    """
    chooser = random.Random(seed)
    names = list(factors)
    todo = {}  # (factor, factor) -> set of (value index, value index)
    for f, g in combinations(range(len(names)), 2):
        todo[f, g] = {(i, j) for i in range(len(factors[names[f]]))
                      for j in range(len(factors[names[g]]))}

    def gain(case, factor, value):
        count = 0
        for other, chosen in case.items():
            pair = (value, chosen) if factor < other else (chosen, value)
            count += pair in todo[min(factor, other), max(factor, other)]
        return count

    cases = []
    while any(todo.values()):
        (f, g), open_pairs = max(todo.items(), key=lambda item: len(item[1]))
        i, j = min(open_pairs)
        case = {f: i, g: j}
        for factor in range(len(names)):
            if factor not in case:
                values = list(range(len(factors[names[factor]])))
                chooser.shuffle(values)
                case[factor] = max(values, key=lambda value: gain(case, factor, value))
        for f, g in combinations(range(len(names)), 2):
            todo[f, g].discard((case[f], case[g]))
        cases.append({names[f]: factors[names[f]][i] for f, i in sorted(case.items())})
    return cases
