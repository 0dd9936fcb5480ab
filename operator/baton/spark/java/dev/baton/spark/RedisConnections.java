package dev.baton.spark;

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

/**
 * This process's connections to one Redis, Sentinels or cluster. They are kept for the next task, and closed after an idle
 * minute.
 */
final class RedisConnections implements ServerRetries.Server {
  private static final Map<String, RedisConnections> OPEN = new ConcurrentHashMap<>();
  /** Errors of a server that may soon serve again, or be replaced. */
  private static final String[] TEMPORARY = {
    "READONLY", "LOADING", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN", "NOREPLICAS", "MISCONF", "ERR max number of clients"
  };

  private final JsonNode config;
  private volatile ConnectionProvider provider;

  private RedisConnections(String server) {
    this.config = Group.server(server);
  }

  static RedisConnections to(String server) {
    return OPEN.computeIfAbsent(server, RedisConnections::new);
  }

  /** Takes a connection to the server that has the key; the caller must close it. Throws JedisException. */
  Connection take(String key) {
    return provider().getConnection(new ClusterCommandArguments(Command.XRANGE).key(key));
  }

  @Override
  public String name() {
    return "Redis";
  }

  @Override
  public String address() {
    return config.path("service").asText() + config.path("nodes");
  }

  @Override
  public boolean isServerError(RuntimeException failed) {
    return failed instanceof JedisException;
  }

  @Override
  public boolean isTemporary(RuntimeException failed) {
    if (failed instanceof JedisAccessControlException) return false;
    if (failed instanceof JedisRedirectionException || failed instanceof JedisBusyException) return true;
    for (Throwable why = failed; why != null; why = why.getCause()) {
      if (why instanceof SSLHandshakeException) return false;
    }
    if (!(failed instanceof JedisDataException)) return true;
    for (String start : TEMPORARY) {
      if (failed.getMessage().startsWith(start)) return true;
    }
    return false;
  }

  /** Fetches a cluster's slots again after a failure. Jedis itself follows Sentinels. */
  void refreshCluster() {
    try {
      if (provider instanceof ClusterConnectionProvider cluster) cluster.renewSlotCache();
    } catch (JedisException away) {
      // fetched again after the next failure
    }
  }

  private synchronized ConnectionProvider provider() {
    if (provider == null) provider = open();
    return provider;
  }

  private ConnectionProvider open() {
    ConnectionPoolConfig pool = new ConnectionPoolConfig(); // by default it closes connections after an idle minute
    pool.setMaxTotal(-1);
    pool.setMaxIdle(64);
    pool.setJmxEnabled(false);
    pool.setTestWhileIdle(false); // the next request notices a dead server
    JedisClientConfig client = client(config.path("user"), config.path("password"), config.path("db").asInt(0));
    return switch (config.path("mode").asText()) {
      case "sentinel" -> new SentineledConnectionProvider(
          config.path("service").asText(), client, pool, nodes(),
          client(config.path("sentinelUser"), config.path("sentinelPassword"), 0));
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
            .clientName(config.path("clientName").asText(null))
            .clientSetInfoConfig(ClientSetInfoConfig.DISABLED); // the user needs one right less
    if (!user.asText("").isEmpty()) client.user(user.asText());
    if (password.isTextual()) client.password(password.asText());
    JsonNode tls = config.path("tls");
    if (tls.isObject()) {
      client.ssl(true).sslSocketFactory(TlsFiles.factory(tls)).sslParameters(TlsFiles.parameters(tls));
    }
    return client.build();
  }

  private int milliseconds(String name) {
    return (int) (1000 * config.path(name).asDouble(5));
  }

  private Set<HostAndPort> nodes() {
    if (config.path("unix").isTextual()) {
      throw new JedisAccessControlException("executors cannot use a Unix socket: give the fleet a URL with host and port");
    }
    Set<HostAndPort> nodes = new LinkedHashSet<>();
    config.path("nodes").forEach(node -> nodes.add(HostAndPort.from(node.asText())));
    return nodes;
  }
}
