package dev.baton.spark;

import java.io.IOException;

/** This task may not, or could not, read a range. The task fails, and Spark retries it or fails the job. */
final class RefusedException extends IOException {
  private static final long serialVersionUID = 1;

  /** The queue's reason, such as LENT, or AWAY, ERROR or GONE. */
  final String code;

  RefusedException(String code, String message) {
    super(message);
    this.code = code;
  }
}
