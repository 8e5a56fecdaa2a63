# SPDX-License-Identifier: BSD-3-Clause
"""Turns measurements into rows, and rows into a table, JSON and a plot."""
import html
import json
import math
import statistics


def median_and_spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def ratios(above, below):
    """Of the two measurements of each round: only these cancel what else the machine was doing."""
    return median_and_spread([a / b for a, b in zip(above, below)])


PEER = "peer "


def peer_key(name):
    """What a peer is called among the variants of a case."""
    return PEER + name


def make_row(case, key, rounds):
    """rounds: {"ours": [value a round], "limit": …, peer_key(name): …}, those that were measured."""
    ours = rounds["ours"]
    row = {"case": case.name, "title": case.title, "key": key,
           "unit": "instructions" if key[0] == "call" else "ns",
           "ours": median_and_spread(ours), "peers": {}, "times_as_fast": {}}
    for other, figures in rounds.items():
        if other == "ours":
            continue
        told = "stalls" if figures is None else median_and_spread(figures)
        if other == "limit":
            row["limit"] = told
            continue
        name = other.removeprefix(PEER)
        row["peers"][name] = told
        if figures is not None:
            row["times_as_fast"][name] = ratios(figures, ours)
    if isinstance(row.get("limit"), dict):
        row["times_the_limit"] = ratios(ours, rounds["limit"])
        row["limit_name"] = case.limit_name
    row["goal"], row["reached"] = judge(case.goal, row, key)
    return row


def judge(goal, row, key):
    """(what was to be shown, whether it was); None where there is nothing to say."""
    wanted, reached = [], []
    if goal.peer is not None and key[0] == "size":
        wanted.append(f"{goal.peer:g} x as fast")
        for name, peer in row["peers"].items():
            reached.append(peer == "stalls"
                           or row["times_as_fast"][name]["median"] >= goal.peer)
    if goal.limit is not None and "times_the_limit" in row:
        wanted.append(f"within {goal.limit:g} x")
        reached.append(row["times_the_limit"]["median"] <= goal.limit)
    if goal.extra is not None and key == ("size", 8) and isinstance(row.get("limit"), dict):
        wanted.append(f"{goal.extra:g} ns over it")
        reached.append(row["ours"]["median"] - row["limit"]["median"] <= goal.extra)
    if goal.most is not None and key[0] == "call":
        wanted.append(f"at most {goal.most[key[1]]}")
        reached.append(row["ours"]["median"] <= goal.most[key[1]])
    return ", ".join(wanted), (all(reached) if reached else None)


# --- table

def short(value):
    if value == "stalls" or value is None:
        return value or ""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f}"


def with_spread(figures):
    if figures is None:
        return ""
    if figures == "stalls":
        return "stalls"
    return f"{short(figures['median'])} ({short(figures['least'])}-{short(figures['most'])})"


def label(key):
    kind, name = key
    if kind == "size":
        for unit, bytes_in_it in (("MiB", 1 << 20), ("KiB", 1 << 10)):
            if name >= bytes_in_it and name % bytes_in_it == 0:
                return f"{name // bytes_in_it} {unit}"
        return f"{name} B"
    return str(name)


def peers_in(rows):
    return list(dict.fromkeys(name for row in rows for name in row["peers"]))


def head(peers):
    of_peers = [text for name in peers for text in (name, "x as fast")]
    return ["what", "ours", *of_peers, "limit", "x the limit", "goal", ""]


def median_of(figures):
    return short(figures["median"] if isinstance(figures, dict) else figures)


def cells(row, peers):
    verdict = {True: "reached", False: "MISSED", None: ""}[row["reached"]] if row["goal"] else ""
    of_peers = [text for name in peers
                for text in (median_of(row["peers"].get(name)),
                             with_spread(row["times_as_fast"].get(name)))]
    return [f"{row['case']} {label(row['key'])}", median_of(row["ours"]), *of_peers,
            median_of(row.get("limit")), with_spread(row.get("times_the_limit")),
            row["goal"], verdict]


def table(rows):
    peers = peers_in(rows)
    lines = [head(peers), *(cells(row, peers) for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
                     for line in lines)


def as_json(facts, rows):
    return json.dumps({**facts, "rows": [{**row, "key": row["key"][1]} for row in rows]},
                      indent=1) + "\n"


# --- plot: one line a row, ratios on a logarithmic axis, a tick where the goal is

ROW, TEXT, PANEL, GAP, TOP = 16, 330, 330, 40, 60
DECADES = (0.1, 1, 10, 100)


def position(ratio, left):
    low, high = math.log10(DECADES[0]), math.log10(DECADES[-1])
    clipped = min(max(math.log10(ratio), low), high)
    return left + PANEL * (clipped - low) / (high - low)


def panel(rows, left, title, ratio_of, goal_of, better):
    """ratio_of: what a row shows here, or None."""
    yield f'<text x="{left}" y="20" font-weight="bold">{html.escape(title)}</text>'
    bottom = TOP + ROW * len(rows)
    for decade in DECADES:
        x = position(decade, left)
        width = 1.5 if decade == 1 else 0.5
        yield (f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 10}" y2="{bottom}" stroke="#888" '
               f'stroke-width="{width}"/>')
        yield f'<text x="{x:.1f}" y="{TOP - 16}" text-anchor="middle">{decade:g}</text>'
    for at, row in enumerate(rows):
        figures, goal = ratio_of(row), goal_of(row)
        if figures is None:
            continue
        y = TOP + ROW * at + ROW / 2
        good = goal is None or better(figures["median"], goal)
        colour = "#888" if goal is None else "#1a7f37" if good else "#cf222e"
        least, middle, most = (position(figures[name], left)
                               for name in ("least", "median", "most"))
        yield (f'<line x1="{least:.1f}" x2="{most:.1f}" y1="{y}" y2="{y}" stroke="{colour}" '
               'stroke-width="2"/>')
        yield f'<circle cx="{middle:.1f}" cy="{y}" r="4" fill="{colour}"/>'
        if goal is not None:
            x = position(goal, left)
            yield (f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - 6}" y2="{y + 6}" stroke="#000" '
                   'stroke-width="2"/>')


def plot(facts, rows, goals):
    """goals: {case name: Goal}"""
    shown = [row for row in rows if row["times_as_fast"] or "times_the_limit" in row]
    peers = peers_in(shown)
    height = TOP + ROW * len(shown) + 20
    width = TEXT + (len(peers) + 1) * (PANEL + GAP) + GAP
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             'font-family="sans-serif" font-size="11">',
             f'<rect width="{width}" height="{height}" fill="#fff"/>',
             f'<text x="5" y="20" font-weight="bold">{html.escape(facts["title"])}</text>']
    for at, row in enumerate(shown):
        y = TOP + ROW * at
        if at % 2 == 0:
            parts.append(f'<rect x="0" y="{y}" width="{width}" height="{ROW}" fill="#f4f4f4"/>')
        parts.append(f'<text x="5" y="{y + 12}">'
                     f'{html.escape(row["case"] + " " + label(row["key"]))}</text>')
    left = TEXT
    for name in peers:
        parts.extend(panel(shown, left, f"times as fast as {name} (right is better)",
                           lambda row, peer=name: row["times_as_fast"].get(peer),
                           lambda row: goals[row["case"]].peer if row["key"][0] == "size" else None,
                           lambda value, goal: value >= goal))
        left += PANEL + GAP
    parts.extend(panel(shown, left, "times the limit (left is better)",
                       lambda row: row.get("times_the_limit"),
                       lambda row: goals[row["case"]].limit,
                       lambda value, goal: value <= goal))
    return "\n".join([*parts, "</svg>"]) + "\n"
