"""What is wrong with the place of a group in a topic, in sentences with the cure. Pure."""

from collections.abc import Mapping

from baton.model.ranges import format_numbers
from baton.queues.kafka.positions_in_log import CutOff

_NAMED = 3
"""Partitions of which a sentence says more."""


def place_warnings(cluster: str, group: str, topic: str, lost: Mapping[int, int], cuts: Mapping[int, CutOff]) -> tuple[str, ...]:
    """`lost`: partitions of which entries were deleted that were not done, and how many. `cuts`: those whose log was cut off."""
    found = []
    if lost:
        found.append(
            f"{cluster}: the place of the group {group} in partitions {format_numbers(lost)} of {topic} is gone: up to "
            f"{sum(lost.values())} entries were deleted before they were done, by the topic's retention or by somebody. Their "
            "owners wait: set the place again by `baton offsets reset`, as the guide to Kafka says, and keep entries longer"
        )
    if cuts:
        told = ", ".join(f"partition {number} at {cut.end}, not {cut.place}" for number, cut in list(cuts.items())[:_NAMED])
        found.append(
            f"{cluster}: in partitions {format_numbers(cuts)} of {topic} the log ends before the place of the group {group} "
            f"({told}): it was cut off, as where a replica that was behind leads or a disk was restored, or somebody has set the "
            "place. Their owners wait until the log is as long again, and what is sent until then is left out: set the place to "
            "the end by `baton offsets reset --to latest`, as the guide to Kafka says"
        )
    return tuple(found)
