package dev.baton.spark;

import java.io.IOException;

/** A range that this task may not read, or could not: the task fails, and Spark tries it again or ends it. */
final class RefusedException extends IOException {
  private static final long serialVersionUID = 1;

  /** The queue's word, such as LENT. */
  final String code;

  RefusedException(String code, String message) {
    super(message);
    this.code = code;
  }
}
