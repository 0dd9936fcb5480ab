package dev.baton.spark;

import java.util.List;

/**
 * The entries of a range, in pages, and the queue's check of the reader.
 *
 * @param <E> the client library's type of an entry
 */
interface Pages<E> extends AutoCloseable {
  /** Returns the next entries, in a mutable list; empty after the last entry. */
  List<E> next() throws RefusedException;

  /** Repeats the check if it is old. Call it every few entries, before they go out. */
  void checkAgain() throws RefusedException;

  /** Whether the reader is not the owner's executor. */
  boolean lent();

  @Override
  void close();
}
