package dev.baton.spark;

import java.util.Map;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;

/** The groups whose fleet runs in this driver. Python puts them here by py4j. */
public final class Groups {
  private static final Map<String, Decisions> BY_NAME = new ConcurrentHashMap<>();
  private static final Set<String> CLAIMED = ConcurrentHashMap.newKeySet();

  private Groups() {}

  /** To be called before a fleet starts. False: another one of that group runs in this driver. */
  public static boolean claim(String group) {
    return CLAIMED.add(group);
  }

  /** The group's queries ask these decisions from now on. */
  public static void register(String group, Decisions decisions) {
    BY_NAME.put(group, decisions);
  }

  /** The fleet has stopped, or could not start. */
  public static void release(String group) {
    BY_NAME.remove(group);
    CLAIMED.remove(group);
  }

  /** Of all that run here. */
  static SortedSet<String> names() {
    return new TreeSet<>(BY_NAME.keySet());
  }

  /** Null where no fleet of that group runs. */
  static Decisions find(String group) {
    return BY_NAME.get(group);
  }
}
