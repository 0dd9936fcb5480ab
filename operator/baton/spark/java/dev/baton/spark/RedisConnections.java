package dev.baton.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import javax.net.ssl.SSLHandshakeException;
import redis.clients.jedis.ClientSetInfoConfig;
import redis.clients.jedis.ClusterCommandArguments;
import redis.clients.jedis.Connection;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.Protocol.Command;
import redis.clients.jedis.exceptions.JedisAccessControlException;
import redis.clients.jedis.exceptions.JedisBusyException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.exceptions.JedisRedirectionException;
import redis.clients.jedis.providers.ClusterConnectionProvider;
import redis.clients.jedis.providers.ConnectionProvider;
import redis.clients.jedis.providers.PooledConnectionProvider;
import redis.clients.jedis.providers.SentineledConnectionProvider;

/** This process' connections to one Redis, Sentinels or cluster: kept for the next task, and closed a minute after the last. */
final class RedisConnections implements Patience.Server {
  private static final Map<String, RedisConnections> OPEN = new ConcurrentHashMap<>();
  /** What a server says that may serve in a moment, or another in its place. */
  private static final String[] PASSING = {
    "READONLY", "LOADING", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN", "NOREPLICAS", "MISCONF", "ERR max number of clients"
  };

  private final JsonNode where;
  private volatile ConnectionProvider provider;

  private RedisConnections(String server) {
    try {
      this.where = Group.JSON.readTree(server);
    } catch (JsonProcessingException malformed) {
      throw new IllegalArgumentException("A queue's server is no JSON"); // it has a password: nothing of it is told
    }
  }

  static RedisConnections to(String server) {
    return OPEN.computeIfAbsent(server, RedisConnections::new);
  }

  /** A connection to the server that has the key, to be closed by the caller. Throws JedisException. */
  Connection take(String key) {
    return provider().getConnection(new ClusterCommandArguments(Command.XRANGE).key(key));
  }

  @Override
  public String name() {
    return "Redis";
  }

  @Override
  public String place() {
    return where.path("service").asText() + where.path("nodes");
  }

  @Override
  public boolean mine(RuntimeException failed) {
    return failed instanceof JedisException;
  }

  @Override
  public boolean passes(RuntimeException failed) {
    if (failed instanceof JedisAccessControlException) return false;
    if (failed instanceof JedisRedirectionException || failed instanceof JedisBusyException) return true;
    for (Throwable why = failed; why != null; why = why.getCause()) {
      if (why instanceof SSLHandshakeException) return false;
    }
    if (!(failed instanceof JedisDataException)) return true;
    for (String word : PASSING) {
      if (failed.getMessage().startsWith(word)) return true;
    }
    return false;
  }

  /** A server did not serve: asks a cluster who has which keys now. Of Sentinels, Jedis hears by itself. */
  void locate() {
    try {
      if (provider instanceof ClusterConnectionProvider cluster) cluster.renewSlotCache();
    } catch (JedisException away) {
      // asked again after the next failure
    }
  }

  private synchronized ConnectionProvider provider() {
    if (provider == null) provider = open();
    return provider;
  }

  private ConnectionProvider open() {
    ConnectionPoolConfig pool = new ConnectionPoolConfig(); // which closes after a minute what is not used
    pool.setMaxTotal(-1);
    pool.setMaxIdle(64);
    pool.setJmxEnabled(false);
    pool.setTestWhileIdle(false); // a server's end is noticed when it is asked
    JedisClientConfig client = client(where.path("user"), where.path("password"), where.path("db").asInt(0));
    return switch (where.path("mode").asText()) {
      case "sentinel" -> new SentineledConnectionProvider(
          where.path("service").asText(), client, pool, nodes(),
          client(where.path("sentinelUser"), where.path("sentinelPassword"), 0));
      case "cluster" -> new ClusterConnectionProvider(nodes(), client, pool);
      default -> new PooledConnectionProvider(nodes().iterator().next(), client, pool);
    };
  }

  private JedisClientConfig client(JsonNode user, JsonNode password, int database) {
    DefaultJedisClientConfig.Builder client =
        DefaultJedisClientConfig.builder()
            .socketTimeoutMillis(milliseconds("timeoutSeconds"))
            .connectionTimeoutMillis(milliseconds("connectSeconds"))
            .database(database)
            .clientName(where.path("clientName").asText(null))
            .clientSetInfoConfig(ClientSetInfoConfig.DISABLED); // one right less that the user must have
    if (!user.asText("").isEmpty()) client.user(user.asText());
    if (password.isTextual()) client.password(password.asText());
    JsonNode tls = where.path("tls");
    if (tls.isObject()) {
      client.ssl(true).sslSocketFactory(TlsFiles.factory(tls)).sslParameters(TlsFiles.parameters(tls));
    }
    return client.build();
  }

  private int milliseconds(String name) {
    return (int) (1000 * where.path(name).asDouble(5));
  }

  private Set<HostAndPort> nodes() {
    if (where.path("unix").isTextual()) {
      throw new JedisAccessControlException("executors reach no server by a Unix socket: give the fleet a URL with host and port");
    }
    Set<HostAndPort> nodes = new LinkedHashSet<>();
    where.path("nodes").forEach(node -> nodes.add(HostAndPort.from(node.asText())));
    return nodes;
  }
}
