package dev.baton.spark;

import java.io.Serializable;

/**
 * What all ranges of a queue have in common. Never printed: the server has a password in it.
 *
 * @param kind of queue, as its address says
 * @param query the number of the query; 0: nothing is fenced or recorded
 * @param server as JSON
 * @param script text of the check before each page; "" where the kind has none
 */
record PlannedQueue(String kind, long query, String server, String script, String sha) implements Serializable {
  @Override
  public String toString() {
    return "PlannedQueue[query " + query + "]";
  }
}
