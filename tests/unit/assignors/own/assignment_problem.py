"""An exact solver that shares nothing with the assignors: Kuhn's Hungarian method with potentials, in whole numbers."""

from collections.abc import Sequence


def least_cost(costs: Sequence[Sequence[int]]) -> int:
    """The least cost of giving every row a column of its own. There must be at least as many columns as rows."""
    rows, columns = len(costs), len(costs[0]) if costs else 0
    infinity = 1 + 2 * sum(max(row) for row in costs)
    row_price, column_price = [0] * (rows + 1), [0] * (columns + 1)
    row_of, before = [0] * (columns + 1), [0] * (columns + 1)
    for row in range(1, rows + 1):
        row_of[0] = row
        at, slack, done = 0, [infinity] * (columns + 1), [False] * (columns + 1)
        while row_of[at]:
            done[at] = True
            prices, here = costs[row_of[at] - 1], row_price[row_of[at]]
            least, following = infinity, 0
            for column in range(1, columns + 1):
                if not done[column]:
                    reduced = prices[column - 1] - here - column_price[column]
                    if reduced < slack[column]:
                        slack[column], before[column] = reduced, at
                    if slack[column] < least:
                        least, following = slack[column], column
            for column in range(columns + 1):
                if done[column]:
                    row_price[row_of[column]] += least
                    column_price[column] -= least
                else:
                    slack[column] -= least
            at = following
        while at:
            row_of[at] = row_of[before[at]]
            at = before[at]
    return -column_price[0]
