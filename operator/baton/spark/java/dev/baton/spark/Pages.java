package dev.baton.spark;

import java.util.List;

/**
 * The entries of a range, in pages, and the queue's check of who reads them.
 *
 * @param <E> an entry, as the server's client has it
 */
interface Pages<E> extends AutoCloseable {
  /** The next entries, in a list that can be changed; empty after the last. */
  List<E> next() throws RefusedException;

  /** Makes the check again if it is old. To be called before entries go out, every few of them. */
  void checkAgain() throws RefusedException;

  /** Whether another executor than the owner's reads. */
  boolean lent();

  /** Gives back what others may use. */
  @Override
  void close();
}
