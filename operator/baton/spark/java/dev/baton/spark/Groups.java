package dev.baton.spark;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** The groups whose fleet runs in this driver. Python puts them here by py4j. */
public final class Groups {
  private static final Map<String, Decisions> BY_NAME = new ConcurrentHashMap<>();

  private Groups() {}

  /** The group's queries ask these decisions from now on. */
  public static void register(String group, Decisions decisions) {
    BY_NAME.put(group, decisions);
  }

  /** The fleet has stopped. */
  public static void unregister(String group) {
    BY_NAME.remove(group);
  }

  /** Null where no fleet of that group runs. */
  static Decisions find(String group) {
    return BY_NAME.get(group);
  }
}
