"""Works on partitions that are only numbers to Baton: shards, folders. Copy this and put your own work into `serve`."""

import logging
import time

from baton.consumer import ExternalConsumer, OwnedPartition


def serve(partition: OwnedPartition) -> bool:
    """A little work on one partition, well under maxHandoffSeconds. False: there was nothing to do."""
    print(f"working on {partition.queue}/{partition.number}", flush=True)
    time.sleep(1)
    return True


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    ExternalConsumer.from_environment().run(serve)
