package dev.baton.spark;

import java.lang.reflect.Proxy;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.util.ShutdownHookManager;

/** A JVM that ends while Python does not answer. */
public final class LateEnd {
  private static final int AS_SPARK = 40;

  public static void main(String[] none) {
    Object silent =
        Proxy.newProxyInstance(LateEnd.class.getClassLoader(), new Class<?>[] {Decisions.class}, (proxy, method, given) -> {
          System.out.println("asked: " + method.getName());
          new CountDownLatch(1).await();
          return "{}";
        });
    Group.claim("orders");
    Group.register("orders", (Decisions) silent);
    Group.stopBeforeSpark("orders", 1);
    ShutdownHookManager.get().addShutdownHook(() -> System.out.println("Spark ends"), AS_SPARK, 1, TimeUnit.MINUTES);
    System.exit(0);
  }
}
