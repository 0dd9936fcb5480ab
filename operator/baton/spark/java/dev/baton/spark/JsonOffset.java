package dev.baton.spark;

import org.apache.spark.sql.connector.read.streaming.Offset;

/** A position in all partitions, as the decisions wrote it. Two are equal if their texts are. */
final class JsonOffset extends Offset {
  private final String json;

  JsonOffset(String json) {
    this.json = json;
  }

  @Override
  public String json() {
    return json;
  }
}
